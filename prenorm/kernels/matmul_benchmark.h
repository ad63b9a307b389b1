// Times the three products of a training step at one shape, against the peak of the machine.
#pragma once
#include "prenorm/kernels/runtime.h"

namespace prenorm::kernels {

struct MatmulTimes {
  double forward = 0.0;  // y = x W + b: seconds, the best of several
  double dx = 0.0;       // dx = dy Wᵀ
  double dweight = 0.0;  // dW += xᵀ dy
  double flops = 0.0;    // of each
};

// x: [M, K], W: [K, N]. About `seconds` for each product.
MatmulTimes time_matmul(const Runtime& run, Index m, Index k, Index n, double seconds);

}  // namespace prenorm::kernels
