// Tensors in another floating-point type.
//
//   const Tensor half = cast_tensor(tensor, Dtype::kF16);
#pragma once
#include "prenorm/formats/safetensors.h"

namespace prenorm {

// A copy with every element rounded once, to the nearest, ties to even; overflow is an infinity.
// A tensor of this type already is returned as it is, bytes and all.
// Requires: both types are floating-point (dtype_is_floating_point).
Tensor cast_tensor(const Tensor& tensor, Dtype dtype);

// How many elements are infinite. Requires: its type is floating-point.
Index count_infinite(const Tensor& tensor);

}  // namespace prenorm
