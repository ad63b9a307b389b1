// What does not fit between the tensors of a file and those of a model, collected so that one error
// lists it all.
//
//   TensorMisfits misfits;
//   misfits.check(tensor, {768, 2304});
//   misfits.throw_if_any("model.safetensors");
#pragma once
#include <span>
#include <string>
#include <vector>

#include "prenorm/formats/safetensors.h"

namespace prenorm {

struct TensorMisfits {
  std::vector<std::string> missing, unexpected, misshapen;

  // Notes a tensor of another shape or of a type that is no floating-point type.
  void check(const Tensor& tensor, std::span<const Index> shape);
  // Throws FormatError with the counts and up to 20 names of each kind.
  void throw_if_any(const std::string& file) const;
};

}  // namespace prenorm
