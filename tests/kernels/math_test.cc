// The vector exp, tanh and erf of kernels/math-inl.h, run on every target of this machine.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <iostream>
#include <limits>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/kernels/math_test.cc"
#include "prenorm/kernels/targets.h"
// The per-target parts come after the target has been chosen.
#include "prenorm/kernels/math-inl.h"

#ifndef PRENORM_TESTS_KERNELS_MATH_TARGET  // this file is read once for each target
#define PRENORM_TESTS_KERNELS_MATH_TARGET
namespace prenorm::kernels {
struct MathTarget {
  using Function = void (*)(const float* x, float* y, Index count);  // count: a multiple of 16
  Function exp, exp_nonpositive, tanh, erf;
};
}  // namespace prenorm::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace prenorm::kernels::HWY_NAMESPACE {
#if PRENORM_FMA_TARGET
#define PRENORM_APPLY(name)                                  \
  void apply_##name(const float* x, float* y, Index count) { \
    for (Index i = 0; i < count; i += kFloatLanes) {         \
      hn::StoreU(name(hn::LoadU(DF(), x + i)), DF(), y + i); \
    }                                                        \
  }
PRENORM_APPLY(exp)
PRENORM_APPLY(exp_nonpositive)
PRENORM_APPLY(tanh)
PRENORM_APPLY(erf)
#undef PRENORM_APPLY
extern const MathTarget kMathTarget;
const MathTarget kMathTarget = {apply_exp, apply_exp_nonpositive, apply_tanh, apply_erf};
#endif  // PRENORM_FMA_TARGET
}  // namespace prenorm::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "tests/kernels/float_ulp.h"
#include "tests/tolerances.h"

namespace prenorm::kernels {
namespace {

PRENORM_TARGET_TABLE(MathTarget, math_target, kMathTarget)

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

float at(MathTarget::Function function, float x) {
  std::vector<float> in(16, x), out(16);
  function(in.data(), out.data(), 16);
  return out[3];
}

struct Worst {
  double ulps = 0;
  float x = 0;
};

Worst worst(MathTarget::Function function, long double (*reference)(long double),
            std::uint64_t stride) {
  std::vector<float> xs;
  each_float(stride, [&](float x) { xs.push_back(x); });
  xs.resize(static_cast<std::size_t>(round_up(static_cast<Index>(xs.size()), 16)), 0.0f);
  std::vector<float> ys(xs.size());
  function(xs.data(), ys.data(), static_cast<Index>(xs.size()));
  Worst result;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    const double ulps = float_ulps(ys[i], reference(xs[i]));
    if (ulps > result.ulps) result = {ulps, xs[i]};
  }
  return result;
}

long double exact_exp(long double x) { return std::exp(x); }
long double exact_tanh(long double x) { return std::tanh(x); }
long double exact_erf(long double x) { return std::erf(x); }

constexpr std::uint64_t kStride = 2003;

TEST(VectorMath, exp_is_within_one_ulp_of_every_float) {
  const Worst w = worst(math_target(best_isa()).exp, exact_exp, kStride);
  EXPECT_LE(w.ulps, tolerance::kExpUlps) << "at " << w.x;
}

TEST(VectorMath, tanh_is_within_two_ulp_of_every_float) {
  const Worst w = worst(math_target(best_isa()).tanh, exact_tanh, kStride);
  EXPECT_LE(w.ulps, tolerance::kTanhUlps) << "at " << w.x;
}

TEST(VectorMath, erf_is_within_two_ulp_of_every_float) {
  const Worst w = worst(math_target(best_isa()).erf, exact_erf, kStride);
  EXPECT_LE(w.ulps, tolerance::kErfUlps) << "at " << w.x;
}

TEST(VectorMath, exp_rounds_denormal_results_once) {
  const auto exp = math_target(best_isa()).exp;
  for (float x = -104.5f; x < -87.0f; x += 0.0137f) {
    EXPECT_LE(float_ulps(at(exp, x), std::exp(static_cast<long double>(x))), tolerance::kExpUlps)
        << x;
  }
}

TEST(VectorMath, special_values) {
  for (Isa isa : supported_isas()) {
    const MathTarget& f = math_target(isa);
    EXPECT_EQ(at(f.exp, kInfinity), kInfinity);
    EXPECT_EQ(at(f.exp, -kInfinity), 0.0f);
    EXPECT_EQ(at(f.exp, 0.0f), 1.0f);
    EXPECT_EQ(at(f.exp, -0.0f), 1.0f);
    EXPECT_EQ(at(f.exp, 88.9f), kInfinity);
    EXPECT_TRUE(std::isnan(at(f.exp, kNan)));
    EXPECT_EQ(at(f.exp_nonpositive, -kInfinity), 0.0f);
    EXPECT_TRUE(std::isnan(at(f.exp_nonpositive, kNan)));
    EXPECT_EQ(at(f.tanh, kInfinity), 1.0f);
    EXPECT_EQ(at(f.tanh, -kInfinity), -1.0f);
    EXPECT_TRUE(std::signbit(at(f.tanh, -0.0f)));
    EXPECT_TRUE(std::isnan(at(f.tanh, kNan)));
    EXPECT_EQ(at(f.erf, kInfinity), 1.0f);
    EXPECT_EQ(at(f.erf, -kInfinity), -1.0f);
    EXPECT_TRUE(std::signbit(at(f.erf, -0.0f)));
    EXPECT_TRUE(std::isnan(at(f.erf, kNan)));
  }
}

TEST(VectorMath, exp_of_a_nonpositive_number_is_the_same_in_both_forms) {
  const MathTarget& f = math_target(best_isa());
  std::vector<float> xs(1 << 16), a(xs.size()), b(xs.size());
  for (std::size_t i = 0; i < xs.size(); ++i) xs[i] = -0.0017f * static_cast<float>(i);
  const Index count = static_cast<Index>(xs.size());
  f.exp(xs.data(), a.data(), count);
  f.exp_nonpositive(xs.data(), b.data(), count);
  EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0);
}

TEST(VectorMath, bits_are_the_same_on_every_target) {
  std::vector<float> xs;
  each_float(5003, [&](float x) { xs.push_back(x); });
  xs.resize(xs.size() / 16 * 16);
  const Index count = static_cast<Index>(xs.size());
  const MathTarget& first = math_target(supported_isas().front());
  for (Isa isa : supported_isas()) {
    const MathTarget& other = math_target(isa);
    std::cout << "ran on " << isa_name(isa) << "\n";
    for (auto function : {&MathTarget::exp, &MathTarget::tanh, &MathTarget::erf}) {
      std::vector<float> a(xs.size()), b(xs.size());
      (first.*function)(xs.data(), a.data(), count);
      (other.*function)(xs.data(), b.data(), count);
      EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0) << isa_name(isa);
    }
  }
}

}  // namespace
}  // namespace prenorm::kernels
#endif
