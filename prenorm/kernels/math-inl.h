// exp, tanh and erf on vectors of floats, and the pieces that the activations and the softmax are
// made of. Only IEEE operations, written fused multiply-adds and integer operations, so the bits
// are the same on every target. NaN stays NaN. Per-target include.
//
// Worst errors over every third float against long double: exp 0.90 ulp (denormal results
// included), tanh 1.46 ulp, erf 1.33 ulp.
#if defined(PRENORM_KERNELS_MATH_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PRENORM_KERNELS_MATH_INL_H
#undef PRENORM_KERNELS_MATH_INL_H
#else
#define PRENORM_KERNELS_MATH_INL_H
#endif

#include "prenorm/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace prenorm::kernels::HWY_NAMESPACE {
#if PRENORM_FMA_TARGET

HWY_INLINE VF splat(float x) { return hn::Set(DF(), x); }

// 1.5 * 2^23: adding it rounds a float below 2^22 to an integer, to nearest even, and leaves that
// integer in the low bits of the sum.
constexpr float kRoundToInteger = 12582912.0f;

// The float whose exponent field is the low bits of k.
HWY_INLINE VF exponent_from_low_bits(hn::Vec<DI> k) {
  return hn::BitCast(DF(), hn::ShiftLeft<23>(k));
}

// e^r for |r| <= ln(2) / 2. Minimax with float coefficients, relative error 3.5e-9.
HWY_INLINE VF exp_reduced(VF r) {
  VF q = splat(0x1.696e4ep-10f);
  q = hn::MulAdd(q, r, splat(0x1.123f7cp-7f));
  q = hn::MulAdd(q, r, splat(0x1.555a12p-5f));
  q = hn::MulAdd(q, r, splat(0x1.55548ap-3f));
  q = hn::MulAdd(q, r, splat(0x1.fffffap-2f));
  q = hn::MulAdd(q, r, splat(1.0f));
  return hn::MulAdd(q, r, splat(1.0f));
}

// (2^f - 1) / f for |f| <= 1/2. Minimax with float coefficients; 1 + f q has relative error 3.9e-9.
HWY_INLINE VF exp2_slope(VF f) {
  VF q = splat(0x1.3fd238p-13f);
  q = hn::MulAdd(q, f, splat(0x1.5f13d2p-10f));
  q = hn::MulAdd(q, f, splat(0x1.3b307ep-7f));
  q = hn::MulAdd(q, f, splat(0x1.c6af6ap-5f));
  q = hn::MulAdd(q, f, splat(0x1.ebfbd8p-3f));
  return hn::MulAdd(q, f, splat(0x1.62e43p-1f));
}

// x - n ln 2 with n = round(x / ln 2) = t - bias, where t also holds n + bias in its low bits.
HWY_INLINE VF exp_reduce(VF x, float bias, VF& t) {
  const VF magic = splat(kRoundToInteger + bias);
  t = hn::MulAdd(x, splat(0x1.715476p0f), magic);
  const VF n = hn::Sub(t, magic);
  const VF r = hn::NegMulAdd(n, splat(0x1.62e43p-1f), x);
  return hn::NegMulAdd(n, splat(-0x1.05c61p-29f), r);
}

// e^x, any x. Denormal results are rounded once, as they should be.
HWY_INLINE VF exp(VF x) {
  x = hn::IfThenElse(hn::Gt(x, splat(89.0f)), splat(89.0f), x);      // infinity
  x = hn::IfThenElse(hn::Lt(x, splat(-104.0f)), splat(-104.0f), x);  // rounds to 0
  VF t;
  const VF p = exp_reduced(exp_reduce(x, 254.0f, t));
  // 2^n as two factors, of which each is a normal number.
  const hn::Vec<DI> k = hn::BitCast(DI(), t);
  const hn::Vec<DI> half = hn::ShiftRight<1>(k);
  return hn::Mul(hn::Mul(p, exponent_from_low_bits(half)),
                 exponent_from_low_bits(hn::Sub(k, half)));
}

// The same bits as exp(x) for x <= 0 (and NaN), in fewer operations. What rounds to 0 is set to 0
// without being computed: a product that is too small for a float costs some processors 100 cycles,
// and masked scores are of that kind.
HWY_INLINE VF exp_nonpositive(VF x) {
  const auto gone = hn::Lt(x, splat(-104.0f));
  x = hn::IfThenZeroElse(gone, x);
  VF t;
  const VF p = exp_reduced(exp_reduce(x, 64.0f + 127.0f, t));
  const VF scale = exponent_from_low_bits(hn::BitCast(DI(), t));
  return hn::IfThenZeroElse(gone, hn::Mul(hn::Mul(p, scale), splat(0x1p-64f)));
}

HWY_INLINE F16 exp(const F16& x) {
  F16 r;
  PRENORM_EACH_F(i) r.v[i] = exp(x.v[i]);
  return r;
}
HWY_INLINE F16 exp_nonpositive(const F16& x) {
  F16 r;
  PRENORM_EACH_F(i) r.v[i] = exp_nonpositive(x.v[i]);
  return r;
}

// A power (1 + fraction) * scale * 2^-64, scale a power of two: left in parts and 2^64 too large,
// so that the caller can go on multiplying before anything is rounded to a float or to a denormal.
struct Power {
  VF fraction;
  VF scale;
};

// x times the power, 2^64 too large; one rounding.
HWY_INLINE VF times_scaled(VF x, const Power& power) {
  const VF scaled = hn::Mul(x, power.scale);
  return hn::MulAdd(scaled, power.fraction, scaled);
}

// 2^(n + f), |f| <= 1/2, where t holds n + 191 in its low bits and n is in [-190, 63].
HWY_INLINE Power exp2_parts(VF f, VF t) {
  return {hn::Mul(exp2_slope(f), f), exponent_from_low_bits(hn::BitCast(DI(), t))};
}

// 2^(hi + lo), for a pair with |lo| << |hi| and hi in [-190, 0].
HWY_INLINE Power exp2_pair(VF hi, VF lo) {
  const VF magic = splat(kRoundToInteger + 64.0f + 127.0f);
  const VF t = hn::Add(hi, magic);
  return exp2_parts(hn::Add(hn::Sub(hi, hn::Sub(t, magic)), lo), t);
}

// min(|x|, limit); NaN stays.
HWY_INLINE VF abs_at_most(VF x, float limit) {
  const VF a = hn::Abs(x);
  return hn::IfThenElse(hn::Gt(a, splat(limit)), splat(limit), a);
}

// e^(-a^2 / 2) for a in [0, 16]: the square is kept as a pair of floats, because a rounded
// one would cost the tail six digits.
HWY_INLINE Power exp_half_square(VF a) {
  const VF k = splat(-0x1.715476p-1f);
  const VF square = hn::Mul(a, a);
  const VF square_lo = hn::MulSub(a, a, square);
  const VF hi = hn::Mul(square, k);
  VF lo = hn::MulSub(square, k, hi);
  lo = hn::MulAdd(square, splat(-0x1.4ae0cp-27f), lo);
  lo = hn::MulAdd(square_lo, k, lo);
  return exp2_pair(hi, lo);
}

// (a + 2.5) erfc(a / sqrt 2) e^(a^2 / 2) / 2, a smooth function of v = a / (a + 2.5), for a in
// [0, 14.6]. Minimax in v - 1/4 with float coefficients, relative error 8.3e-09.
constexpr float kMillsShift = 2.5f;
HWY_INLINE VF shifted_mills(VF v) {
  const VF t = hn::Sub(v, splat(0.25f));
  VF h = splat(-0x1.7a78d6p-6f);
  h = hn::MulAdd(h, t, splat(-0x1.3dc772p-5f));
  h = hn::MulAdd(h, t, splat(0x1.3f6128p-4f));
  h = hn::MulAdd(h, t, splat(0x1.125e9ap-4f));
  h = hn::MulAdd(h, t, splat(-0x1.736d28p-6f));
  h = hn::MulAdd(h, t, splat(-0x1.3149ap-3f));
  h = hn::MulAdd(h, t, splat(-0x1.b48e7ap-4f));
  h = hn::MulAdd(h, t, splat(0x1.12b7d8p-2f));
  h = hn::MulAdd(h, t, splat(0x1.8ede7cp-2f));
  h = hn::MulAdd(h, t, splat(-0x1.1a56d8p0f));
  return hn::MulAdd(h, t, splat(0x1.e8a7a4p-1f));
}

HWY_INLINE VF tanh(VF x) {
  const VF a = abs_at_most(x, 10.0f);
  // Near zero a + a^3 T(a^2): minimax on [0, 0.56], relative error 1.4e-9.
  const VF square = hn::Mul(x, x);
  VF t = splat(-0x1.958c74p-8f);
  t = hn::MulAdd(t, square, splat(0x1.584238p-6f));
  t = hn::MulAdd(t, square, splat(-0x1.b90a76p-5f));
  t = hn::MulAdd(t, square, splat(0x1.110c7p-3f));
  t = hn::MulAdd(t, square, splat(-0x1.555548p-2f));
  const VF small = hn::MulAdd(hn::Mul(t, square), x, x);
  // Elsewhere 1 - 2 e / (1 + e), e = exp(-2 a).
  const VF e = exp_nonpositive(hn::Mul(a, splat(-2.0f)));
  const VF large = hn::Sub(splat(1.0f), hn::Div(hn::Add(e, e), hn::Add(e, splat(1.0f))));
  return hn::CopySign(hn::IfThenElse(hn::Lt(a, splat(0.56f)), hn::Abs(small), large), x);
}

HWY_INLINE VF erf(VF x) {
  // Near zero x + x E(x^2): minimax on [0, 0.92], relative error 8.6e-10.
  const VF square = hn::Mul(x, x);
  VF t = splat(0x1.5d6d2ap-14f);
  t = hn::MulAdd(t, square, splat(-0x1.aa51f4p-11f));
  t = hn::MulAdd(t, square, splat(0x1.54c5dcp-8f));
  t = hn::MulAdd(t, square, splat(-0x1.b80db4p-6f));
  t = hn::MulAdd(t, square, splat(0x1.ce2df2p-4f));
  t = hn::MulAdd(t, square, splat(-0x1.812742p-2f));
  t = hn::MulAdd(t, square, splat(0x1.06eba8p-3f));
  const VF small = hn::MulAdd(t, x, x);
  // Elsewhere 1 - erfc(x), from the tail of the normal distribution at x sqrt 2.
  const VF a = abs_at_most(hn::Mul(x, splat(0x1.6a09e6p0f)), 14.0f);
  const VF r = hn::Div(splat(1.0f), hn::Add(a, splat(kMillsShift)));
  const VF tail = times_scaled(hn::Mul(r, shifted_mills(hn::Mul(a, r))), exp_half_square(a));
  const VF large = hn::NegMulAdd(tail, splat(0x1p-63f), splat(1.0f));
  return hn::CopySign(hn::IfThenElse(hn::Lt(hn::Abs(x), splat(0.92f)), hn::Abs(small), large), x);
}

#endif  // PRENORM_FMA_TARGET
}  // namespace prenorm::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per-target guard
