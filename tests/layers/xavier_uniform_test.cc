#include "prenorm/layers/xavier_uniform.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "prenorm/base/error.h"
#include "tests/tolerances.h"

namespace prenorm {
namespace {

TEST(XavierUniform, bound_is_that_of_the_sum_of_both_fans) {
  EXPECT_NEAR(xavier_uniform_bound(64, 192), std::sqrt(6.0 / 256.0), tolerance::kDoubleFormula);
  EXPECT_NEAR(xavier_uniform_bound(64, 64), std::sqrt(3.0 / 64.0), tolerance::kDoubleFormula);
}

TEST(XavierUniform, values_fill_the_interval_evenly_and_depend_on_seed_and_number_alone) {
  ParameterRegistry registry;
  Parameter& a = registry.add("a", {60, 100});
  Parameter& b = registry.add("b", {60, 100});
  registry.allocate(false);
  const double bound = xavier_uniform_bound(60, 100);
  xavier_uniform(a, 7, 3);
  const auto [least, most] = std::ranges::minmax(a.value);
  EXPECT_GE(least, -bound);
  EXPECT_LE(most, bound);
  double sum = 0.0, squares = 0.0;
  for (const float x : a.value) {
    sum += x / bound;
    squares += x / bound * x / bound;
  }
  const double n = static_cast<double>(a.value.size());
  EXPECT_LT(std::abs(sum / n), tolerance::kSigmas * std::sqrt(1.0 / 3.0 / n));
  EXPECT_LT(std::abs(squares / n - 1.0 / 3.0), tolerance::kSigmas * std::sqrt(4.0 / 45.0 / n));
  xavier_uniform(b, 7, 3);
  EXPECT_TRUE(std::ranges::equal(a.value, b.value));
  xavier_uniform(b, 7, 4);
  EXPECT_FALSE(std::ranges::equal(a.value, b.value));
}

TEST(XavierUniform, refuses_a_vector) {
  ParameterRegistry registry;
  Parameter& bias = registry.add("bias", {4});
  registry.allocate(false);
  EXPECT_THROW(xavier_uniform(bias, 1, 0), ShapeError);
}

}  // namespace
}  // namespace prenorm
