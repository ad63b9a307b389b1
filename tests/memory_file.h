// A TensorFile made of numbers that a test writes down.
//
//   const TensorFile file = MemoryFile("X").floats("input", {2, 2}, {1, 2, 3, 4}).file();
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "prenorm/formats/tensor_file.h"

namespace prenorm {

class MemoryFile {
 public:
  explicit MemoryFile(std::string name = "X") : name_(std::move(name)) {}

  MemoryFile& floats(const std::string& name, std::vector<Index> shape, std::vector<float> values) {
    return add(name, Dtype::kF32, std::move(shape), std::move(values));
  }
  // An arithmetic sequence that fills the shape.
  MemoryFile& ramp(const std::string& name, const std::vector<Index>& shape, float first = -1.0f,
                   float step = 0.125f) {
    Index count = 1;
    for (const Index d : shape) count *= d;
    std::vector<float> values;
    for (Index i = 0; i < count; ++i) values.push_back(first + step * static_cast<float>(i % 37));
    return floats(name, shape, std::move(values));
  }
  MemoryFile& doubles(const std::string& name, std::vector<Index> shape,
                      std::vector<double> values) {
    return add(name, Dtype::kF64, std::move(shape), std::move(values));
  }
  MemoryFile& integers(const std::string& name, std::vector<Index> shape,
                       std::vector<Index> values) {
    return add(name, Dtype::kI64, std::move(shape), std::move(values));
  }
  MemoryFile& bools(const std::string& name, std::vector<Index> shape,
                    std::vector<unsigned char> values) {
    return add(name, Dtype::kBool, std::move(shape), std::move(values));
  }

  TensorFile file() const { return TensorFile(name_, tensors_); }

 private:
  template <typename T>
  MemoryFile& add(const std::string& name, Dtype dtype, std::vector<Index> shape,
                  std::vector<T> values) {
    auto owner = std::make_shared<std::vector<T>>(std::move(values));
    tensors_.push_back({name, dtype, std::move(shape), std::as_bytes(std::span(*owner)), owner});
    return *this;
  }

  std::string name_;
  std::vector<Tensor> tensors_;
};

}  // namespace prenorm
