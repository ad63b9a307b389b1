// Matrix products of numbers rounded to bfloat16, with sums in float32, for training. Each element
// of c is one chain, in ascending k, of one of two orders (products.h), each that of an
// instruction:
//
//   dot    acc ← fma(a[2j], b[2j], fma(a[2j+1], b[2j+1], acc))        for each pair j of k
//   tile   acc ← acc + (E + O)                                        for each 32 of k
//          E, O: chains of fused multiply-adds from zero over the even and the odd ones of them
//
// from zero, or for a weight gradient from what c holds; then come bias and epilogue. k is padded
// with zeros to whole pairs or blocks. The bits of an element depend on nothing else, and those of
// a gradient over micro-batches of a multiple of 32 tokens are those over all at once.
//
// Numbers are rounded to nearest even. Those below a floor, by what they are, count as zero. So
// every product is a multiple of 2^-124, and so is every sum of them: none is ever a denormal
// number, and it does not matter that the instructions would flush those.
#pragma once
#include "prenorm/kernels/matmul.h"
#include "prenorm/kernels/products.h"

namespace prenorm::kernels {

// What an operand is: weights and activations, or gradients. Of gradients a product has one.
enum class Bf16Role { kValue, kGradient };
constexpr float kBf16ValueFloor = 0x1p-40f, kBf16GradientFloor = 0x1p-70f;

// A matrix [M, K] that was rounded already, by an epilogue, for products that it is the left
// operand of. The memory belongs to the caller.
struct Bf16Rows {
  std::uint16_t* data = nullptr;  // on a line of the cache
  Index m = 0, k = 0;

  static Index elements(Index m, Index k);
};

// A matrix as an operand: of floats, or rounded already.
struct Bf16Operand {
  ConstMatrix matrix;
  Bf16Role role = Bf16Role::kValue;
  Bf16Rows rounded = {};  // if it has data, the matrix in place of `matrix`

  Index rows() const { return rounded.data == nullptr ? matrix.dim(0) : rounded.m; }
  Index columns() const { return rounded.data == nullptr ? matrix.dim(1) : rounded.k; }
};

struct Bf16Epilogue : Epilogue {
  Bf16Epilogue() = default;
  Bf16Epilogue(const Epilogue& epilogue) : Epilogue(epilogue) {}  // NOLINT: implicit on purpose

  Bf16Rows rounded;  // act(sum) goes here, as values, in place of `activated`
};

// A right operand [K, N], rounded and in the order in which the kernels read it, for several
// products. The memory belongs to the caller.
struct Bf16Panels {
  std::uint16_t* data = nullptr;  // on a line of the cache
  Index k = 0, n = 0;

  static Index elements(Index k, Index n);
};
// Requires: panels.data holds elements(k, n).
void pack_panels(const Runtime& run, const Right& source, Bf16Role role, const Bf16Panels& panels);

// c = a b with the epilogue, which may not accumulate. a: [M, K] with any row stride, c: [M, N].
// Requires: products are in bfloat16, c overlaps no operand, `b` is not packed.
void matmul_bf16(const Runtime& run, Products products, const Bf16Operand& a, const Right& b,
                 Bf16Role b_role, Matrix c, const Bf16Epilogue& epilogue);
void matmul_bf16(const Runtime& run, Products products, const Bf16Operand& a, const Bf16Panels& b,
                 Matrix c, const Bf16Epilogue& epilogue);

// c += aᵀ b: the weight gradient. a: [K, M], b: [K, N], c: [M, N].
// Requires: c holds zeros or what such products left there.
void matmul_transposed_accumulate_bf16(const Runtime& run, Products products, const Bf16Operand& a,
                                       const Bf16Operand& b, Matrix c);

// The GFLOP/s that all threads reach together on operands in the nearest cache, the best of several
// rounds over about `seconds`.
double measure_bf16_peak(const Runtime& run, Products products, double seconds = 0.2);

}  // namespace prenorm::kernels
