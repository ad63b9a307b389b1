// Python's pickle format, as far as torch.save uses it: plain values, and names of things that are
// never looked up or called.
//
//   const Pickle pickle(bytes, "ckpt.pt: data.pkl", kKnownNames);
//   if (pickle.root().kind == PickleValue::Kind::kDict) ...
//
// The reader is a small stack machine that builds values and runs nothing: a call (REDUCE) becomes
// a value of kind kCall that says what would be called, and a name that is not on the caller's list
// is refused. Values may be shared, and a list or dict may even hold itself: whoever walks them
// must limit depth and number of steps.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace prenorm {

struct PickleValue {
  enum class Kind : std::uint8_t {
    kNone,
    kBool,
    kInteger,
    kReal,
    kString,
    kTuple,
    kList,
    kDict,        // items: key, value, key, value, …
    kName,        // text: "torch._utils._rebuild_tensor_v2"
    kCall,        // items: the name, the tuple of arguments
    kPersistent,  // items: the id, which tells where the bytes of a storage are
  };
  Kind kind = Kind::kNone;
  bool truth = false;
  std::int64_t integer = 0;
  double real = 0.0;
  std::string_view
      text;  // of a string (UTF-8) or a name; of the pickle's bytes or the caller's list
  std::vector<const PickleValue*> items;
};

class Pickle {
 public:
  // `bytes` and `names` must outlive this; `name` stands for the path in messages.
  // collections.OrderedDict is always known, and is a dict. Throws FormatError with name, byte
  // offset, expected and found.
  Pickle(std::span<const std::byte> bytes, std::string name,
         std::span<const std::string_view> names);
  // The values point at each other.
  Pickle(const Pickle&) = delete;
  Pickle& operator=(const Pickle&) = delete;

  const PickleValue& root() const { return *root_; }

 private:
  class Machine;

  std::deque<PickleValue> values_;
  const PickleValue* root_ = nullptr;
};

}  // namespace prenorm
