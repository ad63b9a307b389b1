#include "prenorm/kernels/exp_wide.h"

#include <limits>

#ifndef PRENORM_KERNELS_EXP_WIDE_TARGET  // this file is read once for each target
#define PRENORM_KERNELS_EXP_WIDE_TARGET
namespace prenorm::kernels {

struct ExpWideTarget {
  void (*exp)(Index n, double* x);
};

}  // namespace prenorm::kernels
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "prenorm/kernels/exp_wide.cc"
#include "prenorm/kernels/targets.h"
// The per-target parts come after the target has been chosen.
#include <hwy/contrib/math/math-inl.h>

#include "prenorm/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace prenorm::kernels::HWY_NAMESPACE {
#if PRENORM_FMA_TARGET
namespace {

HWY_INLINE void exp_vector(double* x) {
  const DD d;
  const VD from = hn::LoadU(d, x), most = hn::Set(d, 709.0);  // beyond it Exp is not defined
  const VD infinity = hn::Set(d, std::numeric_limits<double>::infinity());
  hn::StoreU(hn::IfThenElse(hn::Gt(from, most), infinity, hn::Exp(d, hn::Min(from, most))), d, x);
}

void exp(Index n, double* x) {
  Index i = 0;
  for (; i + kDoubleLanes <= n; i += kDoubleLanes) exp_vector(x + i);
  if (i == n) return;
  double rest[kDoubleLanes] = {};
  for (Index k = i; k < n; ++k) rest[k - i] = x[k];
  exp_vector(rest);
  for (Index k = i; k < n; ++k) x[k] = rest[k - i];
}

}  // namespace

constexpr ExpWideTarget kExpWideTarget = {exp};
#endif
}  // namespace prenorm::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace prenorm::kernels {

PRENORM_TARGET_TABLE(ExpWideTarget, exp_wide_target, kExpWideTarget)

void exp_wide(Isa isa, Index n, double* x) { exp_wide_target(isa).exp(n, x); }

}  // namespace prenorm::kernels
#endif
