// The writing half of safetensors.h.
#include <algorithm>
#include <cstring>
#include <utility>

#include "prenorm/base/checked.h"
#include "prenorm/base/error.h"
#include "prenorm/base/json.h"
#include "prenorm/base/utf8.h"
#include "prenorm/formats/safetensors.h"

namespace prenorm {
namespace {

template <typename T>
Tensor tensor_of(std::string name, Dtype dtype, std::vector<Index> shape,
                 std::span<const T> values) {
  return {std::move(name), dtype, std::move(shape), std::as_bytes(values), nullptr};
}

// The package's order: wider types first, then names by their bytes.
bool comes_before(const Tensor& a, const Tensor& b) {
  return a.dtype != b.dtype ? a.dtype > b.dtype : a.name < b.name;
}

void check(const Tensor& t) {
  const auto refuse = [&](const std::string& expected, const std::string& found) {
    throw Error("tensor '" + printable(t.name) + "': expected " + expected + ", found " + found);
  };
  if (t.name.empty() || t.name == "__metadata__" || t.name.find('\0') != std::string::npos) {
    refuse("a name that a safetensors file can hold", "'" + printable(t.name) + "'");
  }
  if (find_invalid_utf8(t.name)) refuse("a name in UTF-8", "other bytes");
  std::optional<std::size_t> bytes = dtype_size(t.dtype);
  for (const Index d : t.shape) {
    if (d < 0) refuse("a shape of sizes from 0", shape_text(t.shape));
    if (bytes) bytes = checked_mul(*bytes, static_cast<std::size_t>(d));
  }
  if (bytes != t.bytes.size()) {
    refuse("the bytes of " + std::string(dtype_name(t.dtype)) + " " + shape_text(t.shape),
           std::to_string(t.bytes.size()) + " bytes");
  }
}

// The length and the header; sorts the tensors into the order of their data.
std::string header_for(std::vector<Tensor>& tensors, const TensorMetadata& metadata) {
  std::ranges::sort(tensors, comes_before);
  Json::object_t header;
  if (!metadata.empty()) {
    Json::object_t entries;
    for (const auto& [key, value] : metadata) entries.emplace(key, value);
    header.emplace("__metadata__", std::move(entries));
  }
  std::size_t offset = 0;
  std::unordered_map<std::string_view, int> names;
  std::vector<Json::object_t::value_type, Json::object_t::allocator_type>& members = header;
  for (const Tensor& t : tensors) {
    check(t);
    if (++names[t.name] > 1)
      throw Error("tensor '" + printable(t.name) + "': expected once, found twice");
    const std::size_t end = offset + t.bytes.size();
    Json::object_t entry;
    entry.emplace("dtype", std::string(dtype_name(t.dtype)));
    entry.emplace("shape", t.shape);
    entry.emplace("data_offsets", Json::array({offset, end}));
    members.emplace_back(t.name, std::move(entry));  // names are distinct: no look-up
    offset = end;
  }
  std::string text = dump_json_compact(header);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = text.size();
  std::string out(sizeof length, '\0');
  std::memcpy(out.data(), &length, sizeof length);
  return out + text;
}

}  // namespace

Tensor tensor(std::string name, std::vector<Index> shape, std::span<const float> values) {
  return tensor_of(std::move(name), Dtype::kF32, std::move(shape), values);
}

Tensor tensor(std::string name, std::vector<Index> shape, std::span<const double> values) {
  return tensor_of(std::move(name), Dtype::kF64, std::move(shape), values);
}

Tensor tensor(std::string name, std::vector<Index> shape, std::span<const Index> values) {
  return tensor_of(std::move(name), Dtype::kI64, std::move(shape), values);
}

Tensor packed_tensor(std::string name, std::vector<Index> shape, const float* data,
                     std::span<const Index> strides) {
  Index count = 1;
  for (const Index d : shape) count *= d;
  auto packed = std::make_shared<std::vector<float>>(static_cast<std::size_t>(count));
  std::vector<Index> at(shape.size(), 0);
  for (float& out : *packed) {
    Index offset = 0;
    for (std::size_t axis = 0; axis < at.size(); ++axis) offset += at[axis] * strides[axis];
    out = data[offset];
    for (std::size_t axis = at.size(); axis-- > 0 && ++at[axis] == shape[axis];) at[axis] = 0;
  }
  Tensor t = tensor(std::move(name), std::move(shape), std::span<const float>(*packed));
  t.owner = std::move(packed);
  return t;
}

void save_safetensors(const std::filesystem::path& path, std::vector<Tensor> tensors,
                      const TensorMetadata& metadata) {
  const std::string header = header_for(tensors, metadata);
  write_file_durably(path, [&](FileWriter& out) {
    out.write(header);
    for (const Tensor& t : tensors) out.write(t.bytes);
  });
}

std::string serialize_safetensors(std::vector<Tensor> tensors, const TensorMetadata& metadata) {
  std::string out = header_for(tensors, metadata);
  for (const Tensor& t : tensors) {
    out.append(reinterpret_cast<const char*>(t.bytes.data()), t.bytes.size());
  }
  return out;
}

}  // namespace prenorm
