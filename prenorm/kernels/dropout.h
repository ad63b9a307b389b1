// Dropout (Srivastava et al. 2014) with masks that are a function of the position: element e is
// kept when its random word is at or above p · 2³², and kept values are scaled by 1 / (1 − p). The
// mask is never stored; the backward pass asks for it again.
#pragma once
#include <cstdint>

#include "prenorm/base/philox.h"
#include "prenorm/kernels/runtime.h"
#include "prenorm/tensor/view.h"

namespace prenorm::kernels {

struct Dropout {
  RandomStream stream;
  double p = 0.0;           // 0 <= p < 1
  Index first_element = 0;  // the element of x[0, 0]: rows before it in the step, times the width

  explicit operator bool() const { return p > 0.0; }
  std::uint32_t threshold() const { return static_cast<std::uint32_t>(p * 0x1p32); }
  float scale() const { return static_cast<float>(1.0 / (1.0 - p)); }
};

// y = residual + dropout(x); residual may be empty (0). x, y, residual: [N, C]; may alias.
// Element (n, c) is first_element + n C + c. The backward pass is the same call on dy.
void dropout(const Runtime& run, const Dropout& drop, ConstMatrix x, ConstMatrix residual,
             Matrix y);

}  // namespace prenorm::kernels
