// The epilogues of the matrix products: what happens to sums while they are in cache. Per-target
// include.
#if defined(PRENORM_KERNELS_MATMUL_FINISH_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PRENORM_KERNELS_MATMUL_FINISH_INL_H
#undef PRENORM_KERNELS_MATMUL_FINISH_INL_H
#else
#define PRENORM_KERNELS_MATMUL_FINISH_INL_H
#endif

#include <algorithm>

#include "prenorm/kernels/activation-inl.h"
#include "prenorm/kernels/matmul.h"

HWY_BEFORE_NAMESPACE();
namespace prenorm::kernels::HWY_NAMESPACE {
#if PRENORM_FMA_TARGET

HWY_INLINE VF activate(Activation act, VF x) {
  switch (act) {
    case Activation::kRelu:
      return relu(x);
    case Activation::kGelu:
      return gelu_erf(x);
    case Activation::kGeluTanh:
      return gelu_tanh(x);
  }
  return x;
}
HWY_INLINE VF activate_grad(Activation act, VF x) {
  switch (act) {
    case Activation::kRelu:
      return relu_grad(x);
    case Activation::kGelu:
      return gelu_erf_grad(x);
    case Activation::kGeluTanh:
      return gelu_tanh_grad(x);
  }
  return x;
}

// The epilogue of one vector of row m, columns from n: `sum` is what stands in c.
HWY_INLINE void finish_vector(const Epilogue& e, Index m, Index n, VF sum, float* c) {
  const DF d;
  if (e.residual) {
    hn::StoreU(hn::Add(hn::LoadU(d, e.residual[m].data() + n), sum), d, c);
  } else if (e.activated) {
    hn::StoreU(activate(e.activation, sum), d, e.activated[m].data() + n);
  } else if (e.activation_input) {
    const VF x = hn::LoadU(d, e.activation_input[m].data() + n);
    hn::StoreU(hn::Mul(sum, activate_grad(e.activation, x)), d, c);
  }
}

// The same for the last columns, through padded copies.
inline void finish_part(const Epilogue& e, Index m, Index n, Index count, float* c) {
  alignas(64) float sum[kFloatLanes] = {}, operand[kFloatLanes] = {}, out[kFloatLanes] = {};
  std::copy_n(c, count, sum);
  Epilogue part = e;
  if (e.residual) {
    std::copy_n(e.residual[m].data() + n, count, operand);
    part.residual = ConstMatrix(operand, {1, kFloatLanes});
  } else if (e.activated) {
    part.activated = Matrix(out, {1, kFloatLanes});
  } else if (e.activation_input) {
    std::copy_n(e.activation_input[m].data() + n, count, operand);
    part.activation_input = ConstMatrix(operand, {1, kFloatLanes});
  }
  finish_vector(part, 0, 0, hn::Load(DF(), sum), sum);
  if (e.activated) {
    std::copy_n(out, count, e.activated[m].data() + n);
  } else {
    std::copy_n(sum, count, c);
  }
}

// The epilogue of `columns` sums in c, of row m from column n.
HWY_INLINE void finish_row(const Epilogue& e, Index m, Index n, Index columns, float* c) {
  Index j = 0;
  for (; j + kFloatLanes <= columns; j += kFloatLanes) {
    finish_vector(e, m, n + j, hn::LoadU(DF(), c + j), c + j);
  }
  if (j < columns) finish_part(e, m, n + j, columns - j, c + j);
}

#endif  // PRENORM_FMA_TARGET
}  // namespace prenorm::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per-target guard
