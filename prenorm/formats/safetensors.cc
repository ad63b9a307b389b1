#include "prenorm/formats/safetensors.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "prenorm/base/checked.h"
#include "prenorm/base/error.h"
#include "prenorm/base/json.h"
#include "prenorm/base/utf8.h"
#include "prenorm/formats/impostor.h"

namespace prenorm {
namespace {

constexpr std::size_t kLengthBytes = 8;
constexpr std::uint64_t kHeaderLimit = 100'000'000;
constexpr std::size_t kMostAxes = 64;  // numpy's own limit

std::string number(std::uint64_t n) { return std::to_string(n); }
std::string in_quotes(std::string_view name) { return "'" + printable(name) + "'"; }

// A refusal of one file; every message names it.
class Refuser {
 public:
  explicit Refuser(std::string_view name) : name_(name) {}
  [[noreturn]] void operator()(std::string_view expected, std::string_view found) const {
    throw FormatError(std::string(name_) + ": expected " + std::string(expected) + ", found " +
                      std::string(found));
  }
  [[noreturn]] void tensor(std::string_view tensor, std::string_view expected,
                           std::string_view found) const {
    throw FormatError(std::string(name_) + ": tensor " + in_quotes(tensor) + ": expected " +
                      std::string(expected) + ", found " + std::string(found));
  }

 private:
  std::string_view name_;
};

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The header's text, its length checked against the file.
std::string_view header_of(std::span<const std::byte> bytes, const Refuser& refuse_plainly) {
  // Only a file that is refused anyway is taken for something else.
  const auto refuse = [&](std::string_view expected, std::string_view found) {
    if (const auto what = impostor(bytes)) refuse_plainly("a safetensors file", *what);
    refuse_plainly(expected, found);
  };
  if (bytes.size() < kLengthBytes) {
    refuse("a safetensors file of at least 8 bytes",
           bytes.empty() ? "an empty file" : number(bytes.size()) + ": the file is incomplete");
  }
  std::uint64_t length;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  if (length < 2 || length > kHeaderLimit) {
    refuse("a header of 2 to " + number(kHeaderLimit) + " bytes",
           "the length " + number(length) + " at byte 0");
  }
  if (length > bytes.size() - kLengthBytes) {
    refuse("at least " + number(kLengthBytes + length) + " bytes",
           number(bytes.size()) + ": the file is incomplete, or is not safetensors");
  }
  const std::string_view header = text_of(bytes.subspan(kLengthBytes, length));
  if (header.front() != '{') {
    refuse("a header that begins with '{' at byte 8", in_quotes(header.substr(0, 1)));
  }
  const std::size_t last = header.find_last_not_of(' ');
  if (header[last] != '}') {
    refuse("a header that ends with '}' and spaces",
           in_quotes(header.substr(last, 1)) + " at byte " + number(kLengthBytes + last));
  }
  return header;
}

TensorMetadata read_metadata(const Json& json, const Refuser& refuse) {
  if (!json.is_object()) refuse("__metadata__ as an object of strings", json.type_name());
  TensorMetadata metadata;
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string()) {
      refuse("a string as metadata " + in_quotes(key), value.type_name());
    }
    metadata.emplace(key, value.get_ref<const std::string&>());
  }
  return metadata;
}

// A JSON number as a size; negative, fractional and other values are refused.
Index read_size(const Json& value, const std::string& tensor, std::string_view field,
                const Refuser& refuse) {
  if (!value.is_number_unsigned() || !checked_cast<Index>(value.get<std::uint64_t>()).has_value()) {
    refuse.tensor(tensor, "whole numbers from 0 in " + std::string(field),
                  printable(dump_json_compact(value), 40));
  }
  return static_cast<Index>(value.get<std::uint64_t>());
}

// Bytes of a tensor of this shape, or nothing where the product does not fit.
std::optional<Index> byte_count(std::span<const Index> shape, Dtype dtype) {
  std::optional<Index> bytes = static_cast<Index>(dtype_size(dtype));
  for (const Index d : shape) {
    if (d < 0 || !(bytes = checked_mul(*bytes, d))) return std::nullopt;
  }
  return bytes;
}

struct Entry {
  Tensor tensor;
  Index begin = 0, end = 0;
};

void check_name(const std::string& name, const Refuser& refuse) {
  if (name.empty()) refuse("tensors with names", "an empty name");
  if (name.find('\0') != std::string::npos) refuse("names without NUL", in_quotes(name));
}

Entry read_entry(const std::string& name, const Json& json, const Refuser& refuse) {
  check_name(name, refuse);
  if (!json.is_object()) {
    refuse.tensor(name, "an object with dtype, shape and data_offsets", json.type_name());
  }
  const Json *dtype = nullptr, *shape = nullptr, *offsets = nullptr;
  for (const auto& [key, value] : json.items()) {
    if (key == "dtype") {
      dtype = &value;
    } else if (key == "shape") {
      shape = &value;
    } else if (key == "data_offsets") {
      offsets = &value;
    } else {
      refuse.tensor(name, "the fields dtype, shape and data_offsets", in_quotes(key));
    }
  }
  if (dtype == nullptr || !dtype->is_string()) refuse.tensor(name, "a string dtype", "none");
  if (shape == nullptr || !shape->is_array()) refuse.tensor(name, "an array shape", "none");
  if (offsets == nullptr || !offsets->is_array() || offsets->size() != 2) {
    refuse.tensor(name, "two data_offsets", "none");
  }
  Entry entry;
  entry.tensor.name = name;
  const auto known = dtype_from_name(dtype->get_ref<const std::string&>());
  if (!known) {
    refuse.tensor(name, "a known dtype", in_quotes(dtype->get_ref<const std::string&>()));
  }
  entry.tensor.dtype = *known;
  if (shape->size() > kMostAxes) {
    refuse.tensor(name, "at most 64 axes", std::to_string(shape->size()));
  }
  for (const Json& d : *shape) {
    entry.tensor.shape.push_back(read_size(d, name, "shape", refuse));
  }
  entry.begin = read_size((*offsets)[0], name, "data_offsets", refuse);
  entry.end = read_size((*offsets)[1], name, "data_offsets", refuse);
  return entry;
}

// The tensors' ranges must follow each other from 0 to the end of the data, each of the size that
// its shape and dtype give.
void check_ranges(const std::vector<Entry>& entries, std::size_t data_size, std::size_t data_begin,
                  const Refuser& refuse) {
  Index next = 0;
  for (const Entry& e : entries) {
    const std::string range = number(static_cast<std::uint64_t>(e.begin)) + " to " +
                              number(static_cast<std::uint64_t>(e.end));
    if (e.end < e.begin) refuse.tensor(e.tensor.name, "data_offsets that ascend", range);
    const std::string kind =
        std::string(dtype_name(e.tensor.dtype)) + " " + printable(shape_text(e.tensor.shape));
    const auto bytes = byte_count(e.tensor.shape, e.tensor.dtype);
    if (!bytes) refuse.tensor(e.tensor.name, "a shape whose bytes can be counted", kind);
    if (*bytes != e.end - e.begin) {
      refuse.tensor(e.tensor.name, std::to_string(*bytes) + " bytes for " + kind,
                    std::to_string(e.end - e.begin) + " in data_offsets");
    }
    if (e.begin != next) {
      refuse.tensor(e.tensor.name,
                    "data from byte " + std::to_string(next) + ", where the one before ends",
                    (e.begin < next ? "an overlap: " : "a hole: ") + range);
    }
    next = e.end;
  }
  const auto covered = static_cast<std::uint64_t>(next);
  if (covered == data_size) return;
  // The sum cannot wrap: both are below 2^63.
  refuse(number(data_begin + covered) + " bytes (header and tensors)",
         number(data_begin + data_size) +
             (covered > data_size ? ": the file is incomplete" : ": bytes after the last tensor"));
}

}  // namespace

Index Tensor::size() const {
  Index n = 1;
  for (const Index d : shape) n *= d;
  return n;
}

std::string shape_text(std::span<const Index> shape) {
  std::string out = "[";
  for (const Index d : shape) out += (out.size() > 1 ? ", " : "") + std::to_string(d);
  return out + "]";
}

Safetensors::Safetensors(const std::filesystem::path& path) : name_(path.string()), map_(path) {
  parse(map_.bytes());
}

Safetensors::Safetensors(std::span<const std::byte> bytes, std::string name)
    : name_(std::move(name)) {
  parse(bytes);
}

void Safetensors::parse(std::span<const std::byte> bytes) {
  const Refuser refuse(name_);
  const std::string_view header = header_of(bytes, refuse);
  const std::size_t data_begin = kLengthBytes + header.size();
  const std::span<const std::byte> data = bytes.subspan(data_begin);
  const Json json = parse_json(header, name_ + ": header");

  std::vector<Entry> entries;
  for (const auto& [name, value] : json.items()) {
    if (name == "__metadata__") {
      metadata_ = read_metadata(value, refuse);
    } else {
      entries.push_back(read_entry(name, value, refuse));
    }
  }
  std::ranges::stable_sort(entries, {}, [](const Entry& e) { return std::pair(e.begin, e.end); });
  check_ranges(entries, data.size(), data_begin, refuse);
  tensors_.reserve(entries.size());
  for (Entry& e : entries) {
    e.tensor.bytes =
        data.subspan(static_cast<std::size_t>(e.begin), static_cast<std::size_t>(e.end - e.begin));
    tensors_.push_back(std::move(e.tensor));
  }
  for (std::size_t i = 0; i < tensors_.size(); ++i) index_.emplace(tensors_[i].name, i);
}

const Tensor* Safetensors::find(std::string_view name) const {
  const auto it = index_.find(name);
  return it == index_.end() ? nullptr : &tensors_[it->second];
}

void Safetensors::read(const Tensor& tensor, std::span<float> out) const {
  check_floating_point(tensor);
  floats_from(tensor.dtype, tensor.bytes, out);
}

void Safetensors::read(const Tensor& tensor, std::span<double> out) const {
  check_floating_point(tensor);
  doubles_from(tensor.dtype, tensor.bytes, out);
}

void Safetensors::check_floating_point(const Tensor& tensor) const {
  if (dtype_is_floating_point(tensor.dtype)) return;
  Refuser(name_).tensor(tensor.name, "dtype F32, F16, BF16 or F64", dtype_name(tensor.dtype));
}

std::vector<float> Safetensors::floats(const Tensor& tensor) const {
  check_floating_point(tensor);
  std::vector<float> out(static_cast<std::size_t>(tensor.size()));
  floats_from(tensor.dtype, tensor.bytes, out);
  return out;
}

std::vector<Index> Safetensors::integers(const Tensor& tensor) const {
  const Refuser refuse(name_);
  if (!dtype_is_integer(tensor.dtype)) {
    refuse.tensor(tensor.name, "an integer dtype", dtype_name(tensor.dtype));
  }
  std::vector<Index> out(static_cast<std::size_t>(tensor.size()));
  if (!integers_from(tensor.dtype, tensor.bytes, out)) {
    refuse.tensor(tensor.name, "numbers below 2^63", "a larger one");
  }
  return out;
}

}  // namespace prenorm
