// Elementwise addition and clearing.
#pragma once
#include "prenorm/kernels/runtime.h"
#include "prenorm/tensor/view.h"

namespace prenorm::kernels {

// y = a + b. All [N, C]; y may alias either.
void add(const Runtime& run, ConstMatrix a, ConstMatrix b, Matrix y);

// y = 0. y: [N, C].
void fill_zero(const Runtime& run, Matrix y);

}  // namespace prenorm::kernels
