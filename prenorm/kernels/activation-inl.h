// The activation functions and their derivatives on one vector of floats, for kernels/activation.cc
// and the epilogues of kernels/matmul.cc. Bits are the same on every target. Per-target include.
//
// Both GELUs are x - s for x >= 0 and -s for x < 0, where s = |x| (1 - gate(|x|)) is computed from
// exp(-exponent) without cancellation and rounded to a denormal only at the end. So the far
// negative tail, where 1 + tanh and 1 + erf cancel, keeps its digits. Worst errors against
// long double, over every float up to 6 and at least 2^-26 in size: 3.57 ulp, tanh GELU 2.69 ulp.
#if defined(PRENORM_KERNELS_ACTIVATION_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PRENORM_KERNELS_ACTIVATION_INL_H
#undef PRENORM_KERNELS_ACTIVATION_INL_H
#else
#define PRENORM_KERNELS_ACTIVATION_INL_H
#endif

#include "prenorm/kernels/activation.h"
#include "prenorm/kernels/math-inl.h"
#include "prenorm/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace prenorm::kernels::HWY_NAMESPACE {
#if PRENORM_FMA_TARGET

// x > 0 ? x : 0, with NaN kept and -0 mapped to 0.
HWY_INLINE VF relu(VF x) { return hn::IfThenZeroElse(hn::Le(x, splat(0.0f)), x); }

// 1 where x > 0, else 0; NaN for NaN.
HWY_INLINE VF relu_grad(VF x) {
  const VF one_or_nan = hn::IfThenElse(hn::Gt(x, splat(0.0f)), splat(1.0f), x);
  return hn::IfThenZeroElse(hn::Le(x, splat(0.0f)), one_or_nan);
}

// x or 0, whichever is larger, minus scaled 2^-64.
HWY_INLINE VF gelu_from_tail(VF x, VF scaled) {
  const VF base = hn::IfThenZeroElse(hn::Lt(x, splat(0.0f)), x);
  return hn::NegMulAdd(scaled, splat(0x1p-64f), base);
}

// x Φ(x).
HWY_INLINE VF gelu_erf(VF x) {
  const VF a = abs_at_most(x, 14.6f);  // beyond: below half the smallest denormal
  const VF v = hn::Div(a, hn::Add(a, splat(kMillsShift)));
  return gelu_from_tail(x, times_scaled(hn::Mul(v, shifted_mills(v)), exp_half_square(a)));
}

// Φ(x) + x φ(x).
HWY_INLINE VF gelu_erf_grad(VF x) {
  const VF a = abs_at_most(x, 14.6f);
  const VF r = hn::Div(splat(1.0f), hn::Add(a, splat(kMillsShift)));
  const VF mills = hn::Mul(r, shifted_mills(hn::Mul(a, r)));
  const VF slope = hn::NegMulAdd(a, splat(0x1.988454p-2f), mills);  // 1 / sqrt(2 π)
  const VF tail = times_scaled(slope, exp_half_square(a));
  const hn::Mask<DF> negative = hn::Lt(x, splat(0.0f));
  const VF signed_tail = hn::IfThenElse(negative, tail, hn::Neg(tail));
  const VF base = hn::IfThenZeroElse(negative, splat(1.0f));
  return hn::MulAdd(signed_tail, splat(0x1p-64f), base);
}

// exp(-2 sqrt(2/π) (a + 0.044715 a^3)) for a in [0, 11]. The exponent is -a w with
// w = B + C a^2 in units of log 2, kept as a pair: B has so few bits that B - w is exact.
HWY_INLINE Power gelu_tanh_power(VF a) {
  const VF b = splat(0x1.26aecp1f);
  const VF c = splat(0x1.a5a7dp-4f);
  const VF square = hn::Mul(a, a);
  const VF square_lo = hn::MulSub(a, a, square);
  const VF w = hn::MulAdd(c, square, b);
  VF lo = hn::MulAdd(square, splat(-0x1.151aaep-29f), splat(0x1.0de73ap-22f));
  lo = hn::MulAdd(c, square_lo, lo);
  lo = hn::Add(hn::MulAdd(c, square, hn::Sub(b, w)), lo);
  const VF minus_a = hn::Neg(a);
  const VF hi = hn::Mul(minus_a, w);
  return exp2_pair(hi, hn::MulAdd(minus_a, lo, hn::MulSub(minus_a, w, hi)));
}

// x (1 + tanh(u)) / 2 = x / (1 + exp(-2 u)), u = sqrt(2/π) (x + 0.044715 x^3).
HWY_INLINE VF gelu_tanh(VF x) {
  const VF a = abs_at_most(x, 11.0f);  // beyond: below half the smallest denormal
  const Power power = gelu_tanh_power(a);
  const VF e = hn::Mul(times_scaled(splat(1.0f), power), splat(0x1p-64f));
  return gelu_from_tail(x, hn::Div(times_scaled(a, power), hn::Add(e, splat(1.0f))));
}

// σ (1 + x (1 - σ) z'), σ = 1 / (1 + exp(-z)), z = 2 u.
HWY_INLINE VF gelu_tanh_grad(VF x) {
  const VF a = abs_at_most(x, 11.0f);
  const VF power = times_scaled(splat(1.0f), gelu_tanh_power(a));
  const VF e = hn::Mul(power, splat(0x1p-64f));
  const VF r = hn::Div(splat(1.0f), hn::Add(e, splat(1.0f)));
  // |x| z' = a (2 sqrt(2/π) + 3 C a^2)
  const VF slope = hn::MulAdd(hn::Mul(a, a), splat(0x1.b6676cp-3f), splat(0x1.988454p0f));
  const VF steepness = hn::Mul(hn::Mul(a, slope), r);
  const hn::Mask<DF> negative = hn::Lt(x, splat(0.0f));
  const VF above = hn::Mul(r, hn::MulAdd(steepness, e, splat(1.0f)));
  const VF below =
      hn::Mul(hn::Mul(hn::Mul(power, r), hn::Sub(splat(1.0f), steepness)), splat(0x1p-64f));
  return hn::IfThenElse(negative, below, above);
}

// The function named, for code that chooses once per call, outside its loops.
template <Activation kAct>
HWY_INLINE VF activate(VF x) {
  if constexpr (kAct == Activation::kRelu) return relu(x);
  if constexpr (kAct == Activation::kGelu) return gelu_erf(x);
  if constexpr (kAct == Activation::kGeluTanh) return gelu_tanh(x);
}
template <Activation kAct>
HWY_INLINE VF activate_grad(VF x) {
  if constexpr (kAct == Activation::kRelu) return relu_grad(x);
  if constexpr (kAct == Activation::kGelu) return gelu_erf_grad(x);
  if constexpr (kAct == Activation::kGeluTanh) return gelu_tanh_grad(x);
}

#endif  // PRENORM_FMA_TARGET
}  // namespace prenorm::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per-target guard
