#include "prenorm/base/portable_math.h"
#include "tests/tolerances.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

namespace prenorm {
namespace {

using Exact = long double;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr int kSamples = 200000;

// |y - exact| in units of the last place of a double of that size.
double ulps(double y, Exact exact) {
  if (y == static_cast<double>(exact)) return 0.5;
  int exponent;
  std::frexp(static_cast<double>(exact), &exponent);
  const Exact unit = std::ldexp(Exact{1}, std::max(exponent - 53, -1074));
  return static_cast<double>(std::fabs(static_cast<Exact>(y) - exact) / unit);
}

template <typename Function, typename Reference>
double worst_ulps(double low, double high, const Function& function, const Reference& reference) {
  std::mt19937_64 generator(7);
  std::uniform_real_distribution<double> u(low, high);
  double worst = 0;
  for (int i = 0; i < kSamples; ++i) {
    const double x = u(generator);
    worst = std::max(worst, ulps(function(x), reference(static_cast<Exact>(x))));
  }
  return worst;
}

Exact exact_exp(Exact x) { return std::exp(x); }
Exact exact_log(Exact x) { return std::log(x); }
Exact exact_log1p(Exact x) { return std::log1p(x); }
Exact exact_cos(Exact x) { return std::cos(x); }
Exact exact_sin(Exact x) { return std::sin(x); }

// By the nearest zero or extremum, where an error of π does not grow. 0 <= x <= 2.
Exact exact_cos_pi(Exact x) {
  const Exact pi = std::acos(Exact{-1});
  const Exact a = x > 1 ? 2 - x : x;
  if (a <= 0.25L) return std::cos(pi * a);
  if (a <= 0.75L) return std::sin(pi * (0.5L - a));
  return -std::cos(pi * (1 - a));
}
Exact exact_sin_pi(Exact x) { return exact_cos_pi(x >= 0.5L ? x - 0.5L : 0.5L - x); }

class LongDouble : public testing::Test {
 protected:
  void SetUp() override {
    if (std::numeric_limits<Exact>::digits <= 53) GTEST_SKIP() << "no wider type to compare with";
  }
};

TEST_F(LongDouble, bounds_exp_by_one_ulp) {
  EXPECT_LE(worst_ulps(-746, 710, portable_exp, exact_exp), tolerance::kPortableUlps);
  EXPECT_LE(worst_ulps(-1, 1, portable_exp, exact_exp), tolerance::kPortableUlps);
  EXPECT_LE(worst_ulps(-1e-9, 1e-9, portable_exp, exact_exp), tolerance::kPortableUlps);
}

TEST_F(LongDouble, bounds_log_by_one_ulp) {
  EXPECT_LE(worst_ulps(0.4, 2.5, portable_log, exact_log), tolerance::kPortableUlps);
  EXPECT_LE(worst_ulps(1 - 1e-9, 1 + 1e-9, portable_log, exact_log), tolerance::kPortableUlps);
  EXPECT_LE(worst_ulps(0, 1e300, portable_log, exact_log), tolerance::kPortableUlps);
  EXPECT_LE(worst_ulps(0, 1e-310, portable_log, exact_log), tolerance::kPortableUlps);
}

TEST_F(LongDouble, bounds_log1p_by_three_ulp) {
  EXPECT_LE(worst_ulps(0, 3, portable_log1p, exact_log1p), tolerance::kPortableLog1pUlps);
  EXPECT_LE(worst_ulps(0, 1e-14, portable_log1p, exact_log1p), tolerance::kPortableLog1pUlps);
}

TEST_F(LongDouble, bounds_cosine_and_sine_by_one_ulp) {
  EXPECT_LE(worst_ulps(-4, 4, portable_cos, exact_cos), tolerance::kPortableUlps);
  EXPECT_LE(worst_ulps(-1e5, 1e5, portable_cos, exact_cos), tolerance::kPortableUlps);
  EXPECT_LE(worst_ulps(-4, 4, portable_sin, exact_sin), tolerance::kPortableUlps);
  EXPECT_LE(worst_ulps(-1e5, 1e5, portable_sin, exact_sin), tolerance::kPortableUlps);
  EXPECT_LE(worst_ulps(0, 2, portable_cos_pi, exact_cos_pi), tolerance::kPortableUlps);
  EXPECT_LE(worst_ulps(0, 1.5, portable_sin_pi, exact_sin_pi), tolerance::kPortableUlps);
}

TEST_F(LongDouble, bounds_integer_powers_by_one_ulp) {
  for (const std::uint64_t n : {1u, 2u, 3u, 10u, 1000u, 12345u}) {
    const auto power = [n](double b) { return pow_int(b, n); };
    const auto reference = [n](Exact b) { return std::pow(b, static_cast<Exact>(n)); };
    EXPECT_LE(worst_ulps(0.97, 1.03, power, reference), tolerance::kPortableUlps) << n;
  }
}

TEST(PortableMath, special_values_are_those_of_the_c_library) {
  EXPECT_EQ(portable_exp(kInfinity), kInfinity);
  EXPECT_EQ(portable_exp(-kInfinity), 0.0);
  EXPECT_EQ(portable_exp(0.0), 1.0);
  EXPECT_TRUE(std::isnan(portable_exp(kNan)));
  EXPECT_EQ(portable_exp(709.9), kInfinity);
  EXPECT_EQ(portable_exp(-745.0), 0x1p-1074);
  EXPECT_EQ(portable_log(0.0), -kInfinity);
  EXPECT_EQ(portable_log(1.0), 0.0);
  EXPECT_EQ(portable_log(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(portable_log(-1.0)));
  EXPECT_TRUE(std::isnan(portable_log(kNan)));
  EXPECT_EQ(portable_log1p(0.0), 0.0);
  EXPECT_EQ(portable_log1p(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(portable_cos(kInfinity)));
  EXPECT_TRUE(std::isnan(portable_cos_pi(kNan)));
  EXPECT_EQ(pow_int(0.0, 0), 1.0);
  EXPECT_EQ(pow_int(2.0, 1023), 0x1p1023);
  EXPECT_EQ(pow_int(2.0, 1024), kInfinity);
  EXPECT_EQ(pow_int(-3.0, 3), -27.0);
}

TEST(PortableMath, half_turns_are_exact) {
  for (const double turns : {0.0, 2.0, 4.0, -6.0, 0x1p60, 1e300}) {
    EXPECT_EQ(portable_cos_pi(turns), 1.0);
    EXPECT_EQ(portable_sin_pi(turns), 0.0);
  }
  EXPECT_EQ(portable_cos_pi(1.0), -1.0);
  EXPECT_EQ(portable_cos_pi(0.5), 0.0);
  EXPECT_EQ(portable_sin_pi(0.5), 1.0);
  EXPECT_EQ(portable_sin_pi(-0.5), -1.0);
  EXPECT_EQ(portable_sin_pi(1.5), -1.0);
}

// A hash of the results' bits over a fixed walk: a machine or compiler that rounds differently
// anywhere changes it.
TEST(PortableMath, bits_are_the_recorded_ones) {
  std::uint64_t hash = 0;
  const auto mix = [&hash](double y) {
    hash = (hash ^ std::bit_cast<std::uint64_t>(y)) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 29;
  };
  for (int i = 1; i <= 20000; ++i) {
    const double x = i * 0.03515625;  // exact
    mix(portable_exp(x - 351.5));
    mix(portable_log(x));
    mix(portable_log1p(x));
    mix(portable_cos(x));
    mix(portable_sin(x));
    mix(portable_cos_pi(x / 7));
    mix(portable_sin_pi(x / 7));
    mix(pow_int(0.999, static_cast<std::uint64_t>(i)));
  }
  EXPECT_EQ(hash, 0x90e72670c9d70f6cu) << std::hex << hash;
}

TEST(NormalPair, has_the_moments_of_the_normal_distribution) {
  constexpr int kPairs = 200000;
  std::mt19937_64 generator(3);
  const auto uniform = [&] { return static_cast<double>(generator() >> 11) * 0x1p-53; };
  double sum = 0, square = 0, fourth = 0, product = 0;
  for (int i = 0; i < kPairs; ++i) {
    const auto [a, b] = normal_pair(uniform(), uniform());
    sum += a + b;
    square += a * a + b * b;
    fourth += a * a * a * a + b * b * b * b;
    product += a * b;
  }
  const double n = 2.0 * kPairs;
  EXPECT_NEAR(sum / n, 0.0, tolerance::kSigmas / std::sqrt(n));
  EXPECT_NEAR(square / n, 1.0, tolerance::kSigmas * std::sqrt(2 / n));
  EXPECT_NEAR(fourth / n, 3.0, tolerance::kSigmas * std::sqrt(96 / n));
  EXPECT_NEAR(product / kPairs, 0.0, tolerance::kSigmas / std::sqrt(kPairs));
}

TEST(NormalPair, is_finite_at_the_ends_of_the_uniform_range) {
  constexpr double kLast = 1 - 0x1p-53;
  for (const double u1 : {0.0, kLast}) {
    for (const double u2 : {0.0, 0.25, 0.5, kLast}) {
      for (const double x : normal_pair(u1, u2)) EXPECT_TRUE(std::isfinite(x)) << u1 << " " << u2;
    }
  }
  EXPECT_EQ(normal_pair(0.0, 0.3)[0], 0.0);
}

}  // namespace
}  // namespace prenorm
