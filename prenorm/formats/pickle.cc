#include "prenorm/formats/pickle.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "prenorm/base/error.h"
#include "prenorm/base/utf8.h"

namespace prenorm {
namespace {

using Kind = PickleValue::Kind;

constexpr std::string_view kOrderedDict = "collections.OrderedDict";
constexpr int kNewestProtocol = 5;
constexpr std::size_t kMostBytes = 64u << 20;  // a thousand tensors take about 100 kB

// The opcodes that plain values and tensors need (Python's pickletools lists them all).
enum Opcode : std::uint8_t {
  kMark = '(',
  kStop = '.',
  kPop = '0',
  kPopMark = '1',
  kDup = '2',
  kBinFloat = 'G',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kNone = 'N',
  kBinPersId = 'Q',
  kReduce = 'R',
  kBinUnicode = 'X',
  kAppend = 'a',
  kBuild = 'b',
  kGlobal = 'c',
  kAppends = 'e',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kTuple = 't',
  kSetItems = 'u',
  kEmptyTuple = ')',
  kEmptyList = ']',
  kEmptyDict = '}',
  kProto = 0x80,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kStackGlobal = 0x93,
  kMemoize = 0x94,
  kFrame = 0x95,
};

}  // namespace

class Pickle::Machine {
 public:
  Machine(std::span<const std::byte> bytes, std::string_view name,
          std::span<const std::string_view> names, std::deque<PickleValue>& values)
      : bytes_(bytes), name_(name), names_(names), values_(values) {}

  const PickleValue* run() {
    if (bytes_.size() > kMostBytes) {
      refuse("at most " + std::to_string(kMostBytes) + " bytes", std::to_string(bytes_.size()));
    }
    while (true) {
      op_at_ = at_;
      const auto op = number<std::uint8_t>();
      if (op == kStop) break;
      if (!push_plain(op) && !push_container(op) && !change_container(op) && !use_memo(op)) {
        refuse("an opcode that plain values and tensors need", "opcode " + std::to_string(op));
      }
    }
    const PickleValue* root = pop();
    if (!stack_.empty() || !marks_.empty()) refuse("one value at the end", "more");
    if (at_ != bytes_.size()) refuse("the end of the pickle", "more bytes");
    return root;
  }

 private:
  [[noreturn]] void refuse(std::string_view expected, std::string_view found) const {
    throw FormatError(std::string(name_) + ": expected " + std::string(expected) + ", found " +
                      std::string(found) + " at byte " + std::to_string(op_at_));
  }

  std::string_view take(std::uint64_t count) {
    if (count > bytes_.size() - at_) {
      refuse(std::to_string(count) + " bytes", "the end of the pickle");
    }
    const std::string_view found(reinterpret_cast<const char*>(bytes_.data()) + at_, count);
    at_ += count;
    return found;
  }
  template <typename T>
  T number() {  // little-endian
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string_view line() {
    const std::string_view rest(reinterpret_cast<const char*>(bytes_.data()) + at_,
                                bytes_.size() - at_);
    const std::size_t end = rest.find('\n');
    if (end == std::string_view::npos) refuse("a line", "the end of the pickle");
    at_ += end + 1;
    return rest.substr(0, end);
  }

  PickleValue& push(Kind kind) {
    PickleValue& value = values_.emplace_back();
    value.kind = kind;
    stack_.push_back(&value);
    return value;
  }
  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  PickleValue* top() const {
    if (stack_.size() <= floor()) refuse("a value on the stack", "none");
    return stack_.back();
  }
  PickleValue* pop() {
    PickleValue* value = top();
    stack_.pop_back();
    return value;
  }
  // What stands above the last mark, which goes with it.
  std::vector<const PickleValue*> pop_to_mark() {
    if (marks_.empty()) refuse("a mark on the stack", "none");
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<const PickleValue*> items(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return items;
  }

  void push_integer(std::int64_t value) { push(Kind::kInteger).integer = value; }
  void push_text(std::string_view text) {
    if (find_invalid_utf8(text)) refuse("a string in UTF-8", "other bytes");
    push(Kind::kString).text = text;
  }

  // Little-endian two's complement of up to 8 bytes.
  void push_long() {
    const auto count = number<std::uint8_t>();
    if (count > sizeof(std::int64_t)) refuse("whole numbers of 64 bits", "a longer one");
    const std::string_view digits = take(count);
    std::uint64_t value = count > 0 && (digits.back() & 0x80) != 0 ? ~std::uint64_t{0} : 0;
    for (std::size_t i = digits.size(); i-- > 0;) {
      value = value << 8 | static_cast<std::uint8_t>(digits[i]);
    }
    push_integer(static_cast<std::int64_t>(value));
  }

  void push_real() {  // the one big-endian number of the format
    std::uint64_t bits = 0;
    for (const char c : take(sizeof bits)) bits = bits << 8 | static_cast<std::uint8_t>(c);
    push(Kind::kReal).real = std::bit_cast<double>(bits);
  }

  bool push_plain(std::uint8_t op) {
    switch (op) {
      case kNone:
        push(Kind::kNone);
        return true;
      case kNewTrue:
        push(Kind::kBool).truth = true;
        return true;
      case kNewFalse:
        push(Kind::kBool);
        return true;
      case kBinInt:
        push_integer(number<std::int32_t>());
        return true;
      case kBinInt1:
        push_integer(number<std::uint8_t>());
        return true;
      case kBinInt2:
        push_integer(number<std::uint16_t>());
        return true;
      case kLong1:
        push_long();
        return true;
      case kBinFloat:
        push_real();
        return true;
      case kShortBinUnicode:
        push_text(take(number<std::uint8_t>()));
        return true;
      case kBinUnicode:
        push_text(take(number<std::uint32_t>()));
        return true;
      case kBinUnicode8:
        push_text(take(number<std::uint64_t>()));
        return true;
      default:
        return false;
    }
  }

  void push_tuple(std::size_t count) {
    std::vector<const PickleValue*> items(count);
    for (std::size_t i = count; i-- > 0;) items[i] = pop();
    push(Kind::kTuple).items = std::move(items);
  }

  void push_name(std::string_view module, std::string_view name) {
    const std::string full = std::string(module) + "." + std::string(name);
    const auto known = std::ranges::find(names_, full);
    if (known == names_.end() && full != kOrderedDict) {
      refuse("only what tensors are made of", "'" + printable(full) + "', which is not run");
    }
    push(Kind::kName).text = known == names_.end() ? kOrderedDict : *known;
  }

  void call() {
    const PickleValue* arguments = pop();
    const PickleValue* callee = pop();
    if (callee->kind != Kind::kName || arguments->kind != Kind::kTuple) {
      refuse("a name and a tuple to call it with", "other values");
    }
    if (callee->text == kOrderedDict) {
      if (!arguments->items.empty()) refuse("an OrderedDict that begins empty", "arguments");
      push(Kind::kDict);
      return;
    }
    push(Kind::kCall).items = {callee, arguments};
  }

  bool push_container(std::uint8_t op) {
    switch (op) {
      case kEmptyTuple:
        push(Kind::kTuple);
        return true;
      case kEmptyList:
        push(Kind::kList);
        return true;
      case kEmptyDict:
        push(Kind::kDict);
        return true;
      case kTuple1:
        push_tuple(1);
        return true;
      case kTuple2:
        push_tuple(2);
        return true;
      case kTuple3:
        push_tuple(3);
        return true;
      case kTuple: {
        std::vector<const PickleValue*> items = pop_to_mark();
        push(Kind::kTuple).items = std::move(items);
        return true;
      }
      case kGlobal: {
        const std::string_view module = line();
        push_name(module, line());
        return true;
      }
      case kStackGlobal: {
        const PickleValue* name = pop();
        const PickleValue* module = pop();
        if (name->kind != Kind::kString || module->kind != Kind::kString) {
          refuse("two strings that make a name", "other values");
        }
        push_name(module->text, name->text);
        return true;
      }
      case kReduce:
        call();
        return true;
      case kBinPersId: {
        const PickleValue* id = pop();
        push(Kind::kPersistent).items = {id};
        return true;
      }
      default:
        return false;
    }
  }

  PickleValue& container(Kind kind) const {
    PickleValue* value = top();
    if (value->kind != kind) {
      refuse(kind == Kind::kDict ? "a dict to add to" : "a list to add to", "another value");
    }
    return *value;
  }
  void extend(Kind kind, const std::vector<const PickleValue*>& items) {
    if (kind == Kind::kDict && items.size() % 2 != 0) refuse("keys with values", "a key alone");
    PickleValue& value = container(kind);
    value.items.insert(value.items.end(), items.begin(), items.end());
  }

  bool change_container(std::uint8_t op) {
    switch (op) {
      case kAppends:
        extend(Kind::kList, pop_to_mark());
        return true;
      case kSetItems:
        extend(Kind::kDict, pop_to_mark());
        return true;
      case kAppend: {
        const PickleValue* item = pop();
        extend(Kind::kList, {item});
        return true;
      }
      case kSetItem: {
        const PickleValue* value = pop();
        const PickleValue* key = pop();
        extend(Kind::kDict, {key, value});
        return true;
      }
      // The attributes of a state dict (_metadata: the modules' versions) change nothing.
      case kBuild:
        if (pop()->kind != Kind::kDict) refuse("attributes in a dict", "another value");
        container(Kind::kDict);
        return true;
      default:
        return false;
    }
  }

  void put(std::uint32_t key) { memo_[key] = top(); }
  void get(std::uint32_t key) {
    const auto it = memo_.find(key);
    if (it == memo_.end()) refuse("a value put aside before", "none");
    stack_.push_back(it->second);
  }

  bool use_memo(std::uint8_t op) {
    switch (op) {
      case kBinPut:
        put(number<std::uint8_t>());
        return true;
      case kLongBinPut:
        put(number<std::uint32_t>());
        return true;
      case kMemoize:
        put(static_cast<std::uint32_t>(memo_.size()));
        return true;
      case kBinGet:
        get(number<std::uint8_t>());
        return true;
      case kLongBinGet:
        get(number<std::uint32_t>());
        return true;
      case kMark:
        marks_.push_back(stack_.size());
        return true;
      case kPop:
        if (stack_.size() > floor()) {
          stack_.pop_back();
        } else {
          pop_to_mark();
        }
        return true;
      case kPopMark:
        pop_to_mark();
        return true;
      case kDup:
        stack_.push_back(top());
        return true;
      case kProto:
        if (number<std::uint8_t>() > kNewestProtocol) refuse("protocol 5 or older", "a newer one");
        return true;
      case kFrame:
        number<std::uint64_t>();
        return true;
      default:
        return false;
    }
  }

  std::span<const std::byte> bytes_;
  std::string_view name_;
  std::span<const std::string_view> names_;
  std::deque<PickleValue>& values_;
  std::size_t at_ = 0, op_at_ = 0;
  std::vector<PickleValue*> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint32_t, PickleValue*> memo_;
};

Pickle::Pickle(std::span<const std::byte> bytes, std::string name,
               std::span<const std::string_view> names)
    : root_(Machine(bytes, name, names, values_).run()) {}

}  // namespace prenorm
