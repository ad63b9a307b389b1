// The safetensors format: a header of names, dtypes, shapes and offsets as JSON, then the bytes.
//
//   const Safetensors file("model.safetensors");
//   if (const Tensor* w = file.find("transformer.wte.weight")) file.read(*w, floats);
//
//   save_safetensors("out.safetensors", {tensor("output", {T, C}, values)});
//
// The reader refuses whatever the format's own rules refuse, also where other readers are lenient:
// holes, overlaps, trailing bytes, a header that does not begin with '{', unknown fields, duplicate
// or empty names, NUL in a name. The bytes behind the header may start at any alignment.
#pragma once
#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "prenorm/base/file.h"
#include "prenorm/base/index.h"
#include "prenorm/formats/dtype.h"

namespace prenorm {

// A named array, row-major, little-endian. `bytes` points into the file, or, for writing, to memory
// that outlives the save (or that `owner` keeps).
struct Tensor {
  std::string name;
  Dtype dtype = Dtype::kF32;
  std::vector<Index> shape;  // empty for a scalar
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;

  Index size() const;  // elements
};

std::string shape_text(std::span<const Index> shape);  // "[2, 3]"

// Metadata of a header, in order of keys.
using TensorMetadata = std::map<std::string, std::string>;

class Safetensors {
 public:
  // Maps the file. Throws IoError; FormatError with path, what was expected and what was found.
  explicit Safetensors(const std::filesystem::path& path);
  // Reads bytes in memory, which must outlive this; `name` stands for the path in messages.
  Safetensors(std::span<const std::byte> bytes, std::string name);

  const std::string& name() const { return name_; }
  const std::vector<Tensor>& tensors() const { return tensors_; }  // in the order of their bytes
  const TensorMetadata& metadata() const { return metadata_; }
  const Tensor* find(std::string_view name) const;

  // The elements as float or double; widening is exact, F64 to float rounds to nearest even.
  // Throws FormatError naming file and tensor unless the dtype is F32, F16, BF16 or F64.
  // Requires: out.size() == tensor.size().
  void read(const Tensor& tensor, std::span<float> out) const;
  void read(const Tensor& tensor, std::span<double> out) const;
  std::vector<float> floats(const Tensor& tensor) const;
  // The elements of an integer tensor (I64, I32, I16, I8, U8, U16, U32; U64 up to 2^63 − 1).
  std::vector<Index> integers(const Tensor& tensor) const;

 private:
  void parse(std::span<const std::byte> bytes);
  void check_floating_point(const Tensor& tensor) const;

  std::string name_;
  MappedFile map_;
  std::vector<Tensor> tensors_;
  std::unordered_map<std::string_view, std::size_t> index_;
  TensorMetadata metadata_;
};

// Tensors to write that refer to the caller's memory.
Tensor tensor(std::string name, std::vector<Index> shape, std::span<const float> values);
Tensor tensor(std::string name, std::vector<Index> shape, std::span<const double> values);
Tensor tensor(std::string name, std::vector<Index> shape, std::span<const Index> values);
// A row-major copy of values given with any strides (in elements), e.g. of a transposed view.
Tensor packed_tensor(std::string name, std::vector<Index> shape, const float* data,
                     std::span<const Index> strides);

// Writes the file durably. The same tensors give the same bytes, and those of the safetensors
// package: wider dtypes first, then by name; header padded with spaces to 8 bytes.
// Throws Error for a tensor that no reader would accept (name, bytes against shape); IoError.
void save_safetensors(const std::filesystem::path& path, std::vector<Tensor> tensors,
                      const TensorMetadata& metadata = {{"format", "pt"}});
// The same bytes in memory.
std::string serialize_safetensors(std::vector<Tensor> tensors,
                                  const TensorMetadata& metadata = {{"format", "pt"}});

}  // namespace prenorm
