#include "prenorm/formats/npy.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "prenorm/base/checked.h"
#include "prenorm/base/error.h"
#include "prenorm/base/utf8.h"

namespace prenorm {
namespace {

constexpr std::size_t kMostAxes = 64;  // numpy's own limit

struct NpyType {
  std::string_view descr;
  Dtype dtype;
};

// '|': the byte order does not matter.
constexpr std::array kTypes = {
    NpyType{"|b1", Dtype::kBool}, NpyType{"|u1", Dtype::kU8},  NpyType{"|i1", Dtype::kI8},
    NpyType{"<u2", Dtype::kU16},  NpyType{"<i2", Dtype::kI16}, NpyType{"<u4", Dtype::kU32},
    NpyType{"<i4", Dtype::kI32},  NpyType{"<u8", Dtype::kU64}, NpyType{"<i8", Dtype::kI64},
    NpyType{"<f2", Dtype::kF16},  NpyType{"<f4", Dtype::kF32}, NpyType{"<f8", Dtype::kF64},
    NpyType{"<c8", Dtype::kC64},
};

struct Header {
  std::string descr;
  bool fortran_order = false;
  std::vector<Index> shape;
};

[[noreturn]] void refuse(std::string_view name, std::string_view expected, const std::string& found,
                         std::size_t at) {
  throw FormatError(std::string(name) + ": expected " + std::string(expected) + ", found " + found +
                    " at byte " + std::to_string(at));
}

// Reads the header's Python dictionary, of which only strings, True, False and tuples of whole
// numbers occur.
class HeaderReader {
 public:
  HeaderReader(std::string_view text, std::size_t begin, std::string_view name)
      : text_(text), begin_(begin), name_(name) {}

  Header read() {
    Header header;
    std::array<bool, 3> seen{};
    expect('{');
    while (!accept('}')) {
      const std::size_t key_at = at_;
      const std::string key = string();
      const auto known = std::ranges::find(kKeys, key);
      if (known == kKeys.end()) fail_at(key_at, "a key of descr, fortran_order, shape", key);
      const auto index = static_cast<std::size_t>(known - kKeys.begin());
      if (std::exchange(seen[index], true)) fail_at(key_at, "each key once", key + " twice");
      expect(':');
      if (index == 0) header.descr = string();
      if (index == 1) header.fortran_order = boolean();
      if (index == 2) header.shape = tuple();
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_spaces();
    if (at_ != text_.size()) fail("the end of the header");
    for (std::size_t i = 0; i < kKeys.size(); ++i) {
      if (!seen[i]) fail_at(0, "a header with " + std::string(kKeys[i]), "none");
    }
    return header;
  }

 private:
  static constexpr std::array<std::string_view, 3> kKeys = {"descr", "fortran_order", "shape"};

  [[noreturn]] void fail_at(std::size_t at, const std::string& expected, const std::string& found) {
    refuse(name_, expected, "'" + printable(found, 40) + "'", begin_ + at);
  }
  [[noreturn]] void fail(const std::string& expected) {
    if (at_ >= text_.size()) refuse(name_, expected, "the end of the header", begin_ + at_);
    fail_at(at_, expected, std::string(text_.substr(at_, 1)));
  }
  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool accept(char c) {
    skip_spaces();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(std::string("'") + c + "'");
  }
  std::string string() {
    skip_spaces();
    if (at_ >= text_.size() || (text_[at_] != '\'' && text_[at_] != '"')) fail("a string");
    const std::size_t end = text_.find(text_[at_], at_ + 1);
    if (end == std::string_view::npos) fail("a string that ends");
    const std::string_view found = text_.substr(at_ + 1, end - at_ - 1);
    if (found.find('\\') != std::string_view::npos) fail("a string without escapes");
    at_ = end + 1;
    return std::string(found);
  }
  bool boolean() {
    skip_spaces();
    for (const bool value : {true, false}) {
      const std::string_view word = value ? "True" : "False";
      if (!text_.substr(at_).starts_with(word)) continue;
      at_ += word.size();
      return value;
    }
    fail("True or False");
  }
  Index number() {
    skip_spaces();
    const std::size_t first = at_;
    Index value = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      const auto shifted = checked_mul<Index>(value, 10);
      const auto sum = shifted ? checked_add<Index>(*shifted, text_[at_] - '0') : std::nullopt;
      if (!sum) fail_at(first, "a dimension below 2^63", std::string(text_.substr(first, 24)));
      value = *sum;
    }
    if (at_ == first) fail("a whole number");
    return value;
  }
  // "()", "(3,)", "(3, 4)": one number needs its comma, as in Python.
  std::vector<Index> tuple() {
    std::vector<Index> shape;
    expect('(');
    while (!accept(')')) {
      shape.push_back(number());
      if (shape.size() > kMostAxes) fail("at most " + std::to_string(kMostAxes) + " axes");
      if (accept(',')) continue;
      if (shape.size() == 1) fail("','");
      expect(')');
      break;
    }
    return shape;
  }

  std::string_view text_;
  std::size_t begin_;
  std::string_view name_;
  std::size_t at_ = 0;
};

struct Parts {
  std::string_view header;
  std::size_t header_begin = 0;
  std::span<const std::byte> data;
};

Parts split(std::span<const std::byte> bytes, std::string_view name) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto incomplete = [&](std::size_t expected) {
    refuse(name, "at least " + std::to_string(expected) + " bytes", "the end of the data",
           bytes.size());
  };
  if (!text.starts_with(kNpyMagic)) {
    refuse(name, "an array that begins with \\x93NUMPY",
           bytes.empty() ? "no bytes" : "'" + printable(text.substr(0, kNpyMagic.size())) + "'", 0);
  }
  constexpr std::size_t kVersion = 6, kLength = 8;
  if (bytes.size() < kLength) incomplete(kLength);
  const int major = std::to_integer<int>(bytes[kVersion]);
  const int minor = std::to_integer<int>(bytes[kVersion + 1]);
  if (major < 1 || major > 3 || minor != 0) {
    refuse(name, "format version 1.0, 2.0 or 3.0",
           std::to_string(major) + "." + std::to_string(minor), kVersion);
  }
  const std::size_t length_size = major == 1 ? 2 : 4;
  if (bytes.size() < kLength + length_size) incomplete(kLength + length_size);
  std::uint32_t length = 0;
  std::memcpy(&length, bytes.data() + kLength, length_size);
  const std::size_t begin = kLength + length_size;
  if (length > bytes.size() - begin) incomplete(begin + length);
  return {text.substr(begin, length), begin, bytes.subspan(begin + length)};
}

Dtype dtype_of(const Header& header, std::string_view name, std::size_t at) {
  std::string descr = header.descr;
  // numpy writes single bytes with '|', but reads them with any order.
  if (descr.size() == 3 && descr[2] == '1' && (descr[0] == '<' || descr[0] == '=')) descr[0] = '|';
  const auto found = std::ranges::find(kTypes, descr, &NpyType::descr);
  if (found != kTypes.end()) return found->dtype;
  const bool big = descr.starts_with('>');
  refuse(name, big ? "little-endian numbers" : "an array of numbers or bool",
         "'" + printable(header.descr, 40) + "'", at);
}

// Elements of `size` bytes from Fortran order, where the first axis is the fastest, into C order.
std::shared_ptr<std::vector<std::byte>> to_row_major(std::span<const std::byte> data,
                                                     std::span<const Index> shape,
                                                     std::size_t size) {
  auto out = std::make_shared<std::vector<std::byte>>(data.size());
  const std::size_t axes = shape.size(), count = data.size() / size;
  std::vector<std::size_t> strides(axes), at(axes, 0);
  std::size_t stride = 1;
  for (std::size_t a = 0; a < axes; ++a) {
    strides[a] = stride;
    stride *= static_cast<std::size_t>(shape[a]);
  }
  std::size_t from = 0;
  for (std::size_t i = 0; i < count; ++i) {
    std::memcpy(out->data() + i * size, data.data() + from * size, size);
    for (std::size_t a = axes; a-- > 0;) {
      from += strides[a];
      if (++at[a] < static_cast<std::size_t>(shape[a])) break;
      from -= at[a] * strides[a];
      at[a] = 0;
    }
  }
  return out;
}

}  // namespace

Tensor parse_npy(std::span<const std::byte> bytes, std::string_view name) {
  const Parts parts = split(bytes, name);
  Header header = HeaderReader(parts.header, parts.header_begin, name).read();
  Tensor tensor;
  tensor.dtype = dtype_of(header, name, parts.header_begin);
  tensor.shape = std::move(header.shape);
  const std::size_t size = dtype_size(tensor.dtype);
  std::optional<std::size_t> expected = size;
  for (const Index d : tensor.shape) {
    if (expected) expected = checked_mul(*expected, static_cast<std::size_t>(d));
  }
  const std::size_t data_begin = bytes.size() - parts.data.size();
  if (!expected || *expected > static_cast<std::size_t>(std::numeric_limits<Index>::max())) {
    refuse(name, "a shape whose bytes can be counted", printable(shape_text(tensor.shape)),
           parts.header_begin);
  }
  if (*expected != parts.data.size()) {
    refuse(name,
           std::to_string(*expected) + " bytes for " + std::string(dtype_name(tensor.dtype)) + " " +
               printable(shape_text(tensor.shape)),
           std::to_string(parts.data.size()), data_begin);
  }
  tensor.bytes = parts.data;
  if (header.fortran_order && tensor.shape.size() > 1 && !parts.data.empty()) {
    const auto copy = to_row_major(parts.data, tensor.shape, size);
    tensor.bytes = *copy;
    tensor.owner = copy;
  }
  return tensor;
}

}  // namespace prenorm
