// A file of named tensors, whichever format it is in: safetensors, .npz, one array in .npy, or
// PyTorch's .pt and .bin.
//
//   const TensorFile file = read_tensors("inputs.npz");
//   if (const Tensor* x = file.find("input")) use(file.doubles(*x));
//
// Zip and npy files are known by their first bytes or, where these are damaged, by their extension;
// everything else is read as safetensors.
#pragma once
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "prenorm/formats/safetensors.h"

namespace prenorm {

class TensorFile {
 public:
  // Tensors in memory; `name` stands for the path in messages, `owner` keeps their bytes.
  TensorFile(std::string name, std::vector<Tensor> tensors,
             std::shared_ptr<const void> owner = nullptr);
  TensorFile(TensorFile&&) = default;
  TensorFile& operator=(TensorFile&&) = default;

  const std::string& name() const { return name_; }
  const std::vector<Tensor>& tensors() const { return tensors_; }
  const Tensor* find(std::string_view name) const;
  // What keeps the bytes of tensors that have no owner of their own; may be null.
  const std::shared_ptr<const void>& owner() const { return owner_; }

  // The elements; widening is exact. Throws FormatError naming file and tensor unless the dtype is
  // F32, F16, BF16 or F64.
  std::vector<double> doubles(const Tensor& tensor) const;
  // Elements from `first` on in float32, rounded to nearest. Requires: there are out.size() of
  // them.
  void read(const Tensor& tensor, std::span<float> out, std::size_t first = 0) const;
  std::vector<float> floats(const Tensor& tensor) const;
  // Of an integer tensor. Throws FormatError for another dtype and for numbers of 2^63 and more.
  std::vector<Index> integers(const Tensor& tensor) const;

  // Throws FormatError `FILE: tensor 'NAME': expected …, found …`.
  [[noreturn]] void refuse(const Tensor& tensor, std::string_view expected,
                           std::string_view found) const;
  // Throws FormatError unless the dtype is F32, F16, BF16 or F64.
  void check_floating_point(const Tensor& tensor) const;

 private:
  std::string name_;
  std::vector<Tensor> tensors_;
  std::shared_ptr<const void> owner_;
  std::unordered_map<std::string_view, std::size_t> index_;  // of names in tensors_
};

// A lone .npy array gets the file's name without its extension.
// Throws IoError; FormatError with path, what was expected and what was found.
TensorFile read_tensors(const std::filesystem::path& path);

}  // namespace prenorm
