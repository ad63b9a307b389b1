// A matrix product in double of activations in double and weights in float, for replays that must
// be more exact than what they judge:
//
//   c[m, n] = Σ_k a[m, k] b[k, n]      one chain of fused multiply-adds from zero, in ascending k
//
// An element's bits depend neither on the instruction set nor on how many rows or columns are
// computed together.
#pragma once
#include "prenorm/base/index.h"
#include "prenorm/kernels/isa.h"

namespace prenorm::kernels {

// a: [M, K], b: [K, N], c: [M, N], each contiguous. Overwrites c. On the calling thread alone.
// Requires: c overlaps neither operand.
void matmul_wide(Isa isa, Index m, Index k, Index n, const double* a, const float* b, double* c);

// N columns of the same, for threads that share it: the rows of b and c are `stride` apart.
void matmul_wide_columns(Isa isa, Index m, Index k, Index n, Index stride, const double* a,
                         const float* b, double* c);

// The same of two matrices in double.
void matmul_wide(Isa isa, Index m, Index k, Index n, const double* a, const double* b, double* c);

// The same in float, twice as fast: to sort out what is far off.
void matmul_single(Isa isa, Index m, Index k, Index n, const float* a, const float* b, float* c);

}  // namespace prenorm::kernels
