#include "prenorm/base/json.h"

#include <iterator>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "prenorm/base/error.h"
#include "prenorm/base/utf8.h"

namespace prenorm {
namespace {

// Reads text for the parser and counts, outside of itself, how many bytes the parser has taken.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, std::size_t* taken) : at_(at), taken_(taken) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    ++at_;
    ++*taken_;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }

 private:
  const char* at_;
  std::size_t* taken_;
};

// Builds the value. Appends to objects without the look-up that ordered_json would do for each key
// (a vocabulary has 50,257) and keeps a set of an object's keys instead.
class Builder : public nlohmann::json_sax<Json> {
 public:
  explicit Builder(int depth_limit) : depth_limit_(depth_limit) {}

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(std::int64_t value) override { return add(value); }
  bool number_unsigned(std::uint64_t value) override { return add(value); }
  bool number_float(double value, const std::string&) override { return add(value); }
  bool string(std::string& value) override { return add(std::move(value)); }
  bool binary(Json::binary_t&) override { return refuse("text", "binary data"); }

  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(std::string& name) override {
    if (!open_.back().keys.insert(name).second) {
      return refuse("each key once in an object", "'" + printable(name) + "' twice");
    }
    open_.back().key = std::move(name);
    return true;
  }

  bool parse_error(std::size_t position, const std::string& token,
                   const nlohmann::detail::exception& error) override {
    // The numbers of the library's own message are line and column; what it read is enough here.
    found_ = error.id == 406 ? "a number out of range"
             : token.empty() ? "the end of the text"
                             : "'" + printable(token, 40) + "'";
    expected_ = "JSON";
    position_ = position > 0 ? position - 1 : 0;
    return false;
  }

  Json take() { return std::move(root_); }
  const std::string& expected() const { return expected_; }
  const std::string& found() const { return found_; }
  std::optional<std::size_t> position() const { return position_; }

 private:
  struct Open {
    Json* value;
    std::string key;
    std::unordered_set<std::string> keys;
  };

  Json* place(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Json& parent = *open_.back().value;
    if (parent.is_array()) {
      auto& items = parent.get_ref<Json::array_t&>();
      return &items.emplace_back(std::move(value));
    }
    // ordered_map is a vector of pairs; emplace_back of the base class does no look-up.
    std::vector<Json::object_t::value_type, Json::object_t::allocator_type>& members =
        parent.get_ref<Json::object_t&>();
    return &members.emplace_back(std::move(open_.back().key), std::move(value)).second;
  }

  bool add(Json value) {
    place(std::move(value));
    return true;
  }

  bool open(Json value) {
    if (static_cast<int>(open_.size()) >= depth_limit_) {
      return refuse("at most " + std::to_string(depth_limit_) + " levels of nesting", "more");
    }
    open_.push_back({place(std::move(value)), {}, {}});
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  bool refuse(std::string expected, std::string found) {
    expected_ = std::move(expected);
    found_ = std::move(found);
    return false;
  }

  int depth_limit_;
  Json root_;
  std::vector<Open> open_;
  std::string expected_, found_;
  std::optional<std::size_t> position_;
};

std::string dump(const Json& value, int indent) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

Json parse_json(std::string_view text, std::string_view name, const JsonLimits& limits) {
  if (text.size() > limits.bytes) {
    throw FormatError(std::string(name) + ": expected at most " + std::to_string(limits.bytes) +
                      " bytes of JSON, found " + std::to_string(text.size()));
  }
  std::size_t taken = 0;
  Builder builder(limits.depth);
  const CountingIterator begin(text.data(), &taken), end(text.data() + text.size(), &taken);
  if (!Json::sax_parse(begin, end, &builder)) {
    const std::size_t at = builder.position().value_or(taken > 0 ? taken - 1 : 0);
    throw FormatError(std::string(name) + ": expected " + builder.expected() + ", found " +
                      builder.found() + " at byte " + std::to_string(at));
  }
  // The library takes a NUL outside of strings for the end, whatever stands behind it.
  if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos) {
    throw FormatError(std::string(name) + ": expected JSON, found '\\x00' at byte " +
                      std::to_string(nul));
  }
  return builder.take();
}

std::string dump_json(const Json& value) { return dump(value, 2) + "\n"; }

std::string dump_json_compact(const Json& value) { return dump(value, -1); }

}  // namespace prenorm
