// Sixteen logical lanes on any target: one AVX-512 vector, two of AVX2, four of NEON. Every row
// reduction runs on these lanes and one combination tree, so its bits do not depend on the vector
// width. Per-target include.
#if defined(PRENORM_KERNELS_SIMD_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PRENORM_KERNELS_SIMD_INL_H
#undef PRENORM_KERNELS_SIMD_INL_H
#else
#define PRENORM_KERNELS_SIMD_INL_H
#endif

#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "prenorm/base/index.h"
#include "prenorm/kernels/targets.h"

HWY_BEFORE_NAMESPACE();
namespace prenorm::kernels::HWY_NAMESPACE {
#if PRENORM_FMA_TARGET
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_AVX3
using DF = hn::FixedTag<float, 16>;
using DD = hn::FixedTag<double, 8>;
#elif HWY_TARGET == HWY_AVX2
using DF = hn::FixedTag<float, 8>;
using DD = hn::FixedTag<double, 4>;
#else
using DF = hn::FixedTag<float, 4>;
using DD = hn::FixedTag<double, 2>;
#endif
using DI = hn::RebindToSigned<DF>;
using DHalf = hn::Rebind<float, DD>;  // as many floats as a vector of doubles has lanes
using VF = hn::Vec<DF>;
using VD = hn::Vec<DD>;

constexpr Index kLanes = 16;  // part of the arithmetic, not a tuning knob
constexpr Index kFloatLanes = static_cast<Index>(sizeof(VF) / sizeof(float));
constexpr Index kDoubleLanes = static_cast<Index>(sizeof(VD) / sizeof(double));
constexpr int kFloatVectors = static_cast<int>(kLanes / kFloatLanes);
constexpr int kDoubleVectors = static_cast<int>(kLanes / kDoubleLanes);

// The constructors are written out because GCC compiles implicit ones without the target's options,
// where NEON's vectors cannot be inlined.
struct F16 {  // sixteen floats
  HWY_INLINE F16() {}
  VF v[kFloatVectors];
};
struct D16 {  // sixteen doubles
  HWY_INLINE D16() {}
  VD v[kDoubleVectors];
};

// Of a lambda in a kernel, after its parameters: it is compiled for the target and always inlined.
#define PRENORM_INLINED HWY_ATTR __attribute__((always_inline))

// use(0), use(1), … use(N - 1), each number a constant. An array of vectors whose indices are
// constants before any loop is unrolled stays in registers; else it is kept in memory at the
// beginning and at the end of what is done with it.
template <typename Use, int... I>
HWY_INLINE void each_of(std::integer_sequence<int, I...>, const Use& use) {
  (use(std::integral_constant<int, I>()), ...);
}
template <int N, typename Use>
HWY_INLINE void each(const Use& use) {
  each_of(std::make_integer_sequence<int, N>(), use);
}

#define PRENORM_EACH_F(i) for (int i = 0; i < kFloatVectors; ++i)
#define PRENORM_EACH_D(i) for (int i = 0; i < kDoubleVectors; ++i)

HWY_INLINE F16 set_f(float x) {
  F16 r;
  PRENORM_EACH_F(i) r.v[i] = hn::Set(DF(), x);
  return r;
}
HWY_INLINE D16 set_d(double x) {
  D16 r;
  PRENORM_EACH_D(i) r.v[i] = hn::Set(DD(), x);
  return r;
}
HWY_INLINE F16 load_f(const float* p) {
  F16 r;
  PRENORM_EACH_F(i) r.v[i] = hn::LoadU(DF(), p + i * kFloatLanes);
  return r;
}
HWY_INLINE void store_f(const F16& x, float* p) {
  PRENORM_EACH_F(i) hn::StoreU(x.v[i], DF(), p + i * kFloatLanes);
}
// The first `count` (1 to 15) lanes from memory, the others `fill`.
HWY_INLINE F16 load_f_part(const float* p, Index count, float fill) {
#if HWY_ARCH_X86  // where a masked load touches no memory outside its mask
  F16 r;
  PRENORM_EACH_F(i) {
    const Index here = std::clamp<Index>(count - i * kFloatLanes, 0, kFloatLanes);
    const hn::Mask<DF> mask = hn::FirstN(DF(), static_cast<std::size_t>(here));
    r.v[i] =
        hn::IfThenElse(mask, hn::MaskedLoad(mask, DF(), p + i * kFloatLanes), hn::Set(DF(), fill));
  }
  return r;
#else
  alignas(64) float tmp[kLanes];
  for (Index i = 0; i < kLanes; ++i) tmp[i] = i < count ? p[i] : fill;
  return load_f(tmp);
#endif
}
HWY_INLINE void store_f_part(const F16& x, float* p, Index count) {
#if HWY_ARCH_X86
  PRENORM_EACH_F(i) {
    const Index here = std::clamp<Index>(count - i * kFloatLanes, 0, kFloatLanes);
    hn::BlendedStore(x.v[i], hn::FirstN(DF(), static_cast<std::size_t>(here)), DF(),
                     p + i * kFloatLanes);
  }
#else
  alignas(64) float tmp[kLanes];
  store_f(x, tmp);
  for (Index i = 0; i < count; ++i) p[i] = tmp[i];
#endif
}
HWY_INLINE D16 load_doubles(const double* p) {
  D16 r;
  PRENORM_EACH_D(i) r.v[i] = hn::LoadU(DD(), p + i * kDoubleLanes);
  return r;
}
HWY_INLINE void store_doubles(const D16& x, double* p) {
  PRENORM_EACH_D(i) hn::StoreU(x.v[i], DD(), p + i * kDoubleLanes);
}
// Sixteen floats at p, widened.
HWY_INLINE D16 load_d(const float* p) {
  D16 r;
  PRENORM_EACH_D(i) r.v[i] = hn::PromoteTo(DD(), hn::LoadU(DHalf(), p + i * kDoubleLanes));
  return r;
}
HWY_INLINE D16 load_d_part(const float* p, Index count, float fill) {
  alignas(64) float tmp[kLanes];
  for (Index i = 0; i < kLanes; ++i) tmp[i] = i < count ? p[i] : fill;
  return load_d(tmp);
}
// Rounded to float, to nearest even.
HWY_INLINE void store_d(const D16& x, float* p) {
  PRENORM_EACH_D(i) hn::StoreU(hn::DemoteTo(DHalf(), x.v[i]), DHalf(), p + i * kDoubleLanes);
}
HWY_INLINE void store_d_part(const D16& x, float* p, Index count) {
  alignas(64) float tmp[kLanes];
  store_d(x, tmp);
  for (Index i = 0; i < count; ++i) p[i] = tmp[i];
}

#define PRENORM_BINARY(name, op)                    \
  HWY_INLINE F16 name(const F16& a, const F16& b) { \
    F16 r;                                          \
    PRENORM_EACH_F(i) r.v[i] = op(a.v[i], b.v[i]);  \
    return r;                                       \
  }                                                 \
  HWY_INLINE D16 name(const D16& a, const D16& b) { \
    D16 r;                                          \
    PRENORM_EACH_D(i) r.v[i] = op(a.v[i], b.v[i]);  \
    return r;                                       \
  }
PRENORM_BINARY(add, hn::Add)
PRENORM_BINARY(sub, hn::Sub)
PRENORM_BINARY(mul, hn::Mul)
PRENORM_BINARY(div, hn::Div)
#undef PRENORM_BINARY

// a * b + c with one rounding.
HWY_INLINE F16 fma(const F16& a, const F16& b, const F16& c) {
  F16 r;
  PRENORM_EACH_F(i) r.v[i] = hn::MulAdd(a.v[i], b.v[i], c.v[i]);
  return r;
}
HWY_INLINE D16 fma(const D16& a, const D16& b, const D16& c) {
  D16 r;
  PRENORM_EACH_D(i) r.v[i] = hn::MulAdd(a.v[i], b.v[i], c.v[i]);
  return r;
}
// Widened.
HWY_INLINE D16 to_d(const F16& x) {
  static_assert(kDoubleVectors == 2 * kFloatVectors);
  D16 r;
  PRENORM_EACH_F(i) {
    r.v[2 * i] = hn::PromoteTo(DD(), hn::LowerHalf(DHalf(), x.v[i]));
    r.v[2 * i + 1] = hn::PromoteTo(DD(), hn::UpperHalf(DHalf(), x.v[i]));
  }
  return r;
}

// The larger; the same for NaN and signed zeros on every target: a > b ? a : b.
template <typename V>
HWY_INLINE V larger(V a, V b) {
#if HWY_ARCH_X86  // whose instruction is just that
  return hn::Max(a, b);
#else
  return hn::IfThenElse(hn::Gt(a, b), a, b);
#endif
}
HWY_INLINE F16 max(const F16& a, const F16& b) {
  F16 r;
  PRENORM_EACH_F(i) r.v[i] = larger(a.v[i], b.v[i]);
  return r;
}
HWY_INLINE F16 abs(const F16& x) {
  F16 r;
  PRENORM_EACH_F(i) r.v[i] = hn::Abs(x.v[i]);
  return r;
}
HWY_INLINE F16 zero_where_equal(const F16& x, float value) {
  F16 r;
  PRENORM_EACH_F(i) { r.v[i] = hn::IfThenZeroElse(hn::Eq(x.v[i], hn::Set(DF(), value)), x.v[i]); }
  return r;
}
// Whether a lane is above the bound; NaN is not.
HWY_INLINE bool any_above(const F16& x, float bound) {
  const DF d;
  VF most = x.v[0];
  for (int i = 1; i < kFloatVectors; ++i) most = larger(x.v[i], most);
  return !hn::AllFalse(d, hn::Gt(most, hn::Set(d, bound)));
}

// |x|, and 0 where x is infinite or NaN.
HWY_INLINE F16 size_of_finite(const F16& x) {
  const DF d;
  F16 r;
  PRENORM_EACH_F(i) {
    const VF size = hn::Abs(x.v[i]);
    r.v[i] = hn::IfThenElseZero(hn::Lt(size, hn::Inf(d)), size);
  }
  return r;
}

// Lanes at or past `count` become `fill`.
HWY_INLINE F16 keep_first(const F16& x, Index count, float fill) {
  const DF d;
  F16 r;
  PRENORM_EACH_F(i) {
    const Index here = count - i * kFloatLanes;
    const auto kept = hn::FirstN(d, static_cast<std::size_t>(here < 0 ? 0 : here));
    r.v[i] = hn::IfThenElse(kept, x.v[i], hn::Set(d, fill));
  }
  return r;
}

// The one combination tree: lanes i and i + 8, then i + 4, i + 2, i + 1.
struct AddLanes {
  template <typename V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Add(a, b);
  }
};
struct MaxLanes {
  template <typename V>
  HWY_INLINE V operator()(V a, V b) const {
    return larger(a, b);
  }
};

template <typename Op>
HWY_INLINE float combine_lanes(const F16& x, const Op& op) {
#if HWY_TARGET == HWY_AVX3
  using D8 = hn::FixedTag<float, 8>;
  using D4 = hn::FixedTag<float, 4>;
  const auto eight = op(hn::LowerHalf(D8(), x.v[0]), hn::UpperHalf(D8(), x.v[0]));
  auto four = op(hn::LowerHalf(D4(), eight), hn::UpperHalf(D4(), eight));
#elif HWY_TARGET == HWY_AVX2
  using D4 = hn::FixedTag<float, 4>;
  const auto eight = op(x.v[0], x.v[1]);
  auto four = op(hn::LowerHalf(D4(), eight), hn::UpperHalf(D4(), eight));
#else
  auto four = op(op(x.v[0], x.v[2]), op(x.v[1], x.v[3]));
#endif
  four = op(four, hn::Shuffle1032(four));
  four = op(four, hn::Shuffle2301(four));
  return hn::GetLane(four);
}

HWY_INLINE float sum_lanes(const F16& x) { return combine_lanes(x, AddLanes()); }
HWY_INLINE float max_lanes(const F16& x) { return combine_lanes(x, MaxLanes()); }

HWY_INLINE double sum_lanes(const D16& x) {
  // From the vectors themselves: a copy of the struct would go through memory.
#if HWY_TARGET == HWY_AVX3
  using D4 = hn::FixedTag<double, 4>;
  using D2 = hn::FixedTag<double, 2>;
  const auto eight = hn::Add(x.v[0], x.v[1]);
  const auto four = hn::Add(hn::LowerHalf(D4(), eight), hn::UpperHalf(D4(), eight));
  const auto two = hn::Add(hn::LowerHalf(D2(), four), hn::UpperHalf(D2(), four));
#elif HWY_TARGET == HWY_AVX2
  using D2 = hn::FixedTag<double, 2>;
  const auto four = hn::Add(hn::Add(x.v[0], x.v[2]), hn::Add(x.v[1], x.v[3]));
  const auto two = hn::Add(hn::LowerHalf(D2(), four), hn::UpperHalf(D2(), four));
#else
  const auto four0 = hn::Add(hn::Add(x.v[0], x.v[4]), hn::Add(x.v[2], x.v[6]));
  const auto four1 = hn::Add(hn::Add(x.v[1], x.v[5]), hn::Add(x.v[3], x.v[7]));
  const auto two = hn::Add(four0, four1);
#endif
  return hn::GetLane(hn::Add(two, hn::Shuffle01(two)));
}

#endif  // PRENORM_FMA_TARGET
}  // namespace prenorm::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per-target guard
