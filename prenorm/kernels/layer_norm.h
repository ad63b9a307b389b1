// Layer norm over the last axis (Ba, Kiros, Hinton 2016):
//
//   y = γ (x − μ) / sqrt(σ² + ε) + β      μ, σ²: mean and population variance of the row
//
// Rows are read as float and computed in double, so that a row's result is within half an ulp
// of the exact one whatever its mean and size. Statistics are kept in double for the same reason.
#pragma once
#include "prenorm/kernels/runtime.h"
#include "prenorm/tensor/view.h"

namespace prenorm::kernels {

// x, y: [N, C]; weight, bias: [C] or empty (1 and 0); mean, rstd: [N] or empty; eps > 0.
// Overwrites y, mean, rstd. y may alias x.
void layer_norm_forward(const Runtime& run, ConstMatrix x, ConstVector weight, ConstVector bias,
                        double eps, Matrix y, DoubleVector mean, DoubleVector rstd);

// dx = residual + the gradient of x (residual may be empty, and may alias dx or dy).
// dweight, dbias: [C] or empty; adds to them, in blocks of 256 rows. dx may alias dy.
void layer_norm_backward(const Runtime& run, ConstMatrix dy, ConstMatrix x, ConstVector weight,
                         ConstDoubleVector mean, ConstDoubleVector rstd, ConstMatrix residual,
                         Matrix dx, Vector dweight, Vector dbias);

}  // namespace prenorm::kernels
