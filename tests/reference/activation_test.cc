#include "prenorm/reference/activation.h"
#include "tests/tolerances.h"

#include <gtest/gtest.h>

#include <limits>

namespace prenorm::reference {
namespace {

constexpr Activation kAll[] = {Activation::kRelu, Activation::kGelu, Activation::kGeluTanh,
                               Activation::kGeluQuick};

TEST(Activation, the_formulas_as_they_are_written) {
  for (double x = -4.0; x <= 4.0; x += 0.125) {
    const double u = std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x);
    EXPECT_EQ(activate(Activation::kRelu, x), std::max(x, 0.0));
    EXPECT_NEAR(activate(Activation::kGelu, x), x * (1 + std::erf(x / std::sqrt(2.0))) / 2,
                tolerance::kDoubleFormula);
    EXPECT_NEAR(activate(Activation::kGeluTanh, x), x * (1 + std::tanh(u)) / 2,
                tolerance::kDoubleFormula);
    EXPECT_NEAR(activate(Activation::kGeluQuick, x), x / (1 + std::exp(-1.702 * x)),
                tolerance::kDoubleFormula);
  }
}

TEST(Activation, slopes_agree_with_central_differences) {
  const long double h = 1e-5L;
  for (const Activation kind : kAll) {
    for (long double x = -5.03L; x < 5.0L; x += 0.25L) {
      const long double slope = (activate(kind, x + h) - activate(kind, x - h)) / (2 * h);
      EXPECT_NEAR(static_cast<double>(activation_slope(kind, x)), static_cast<double>(slope), 1e-9);
    }
  }
}

// 1 + erf(−9/√2) is zero in double; the value, from 50-digit arithmetic, is not.
TEST(Activation, the_far_tail_is_kept) {
  EXPECT_NEAR(activate(Activation::kGelu, -9.0) / -1.0157295653584566e-18, 1.0, 1e-13);
  EXPECT_NEAR(activate(Activation::kGeluTanh, -7.0) / -2.315442262072549e-15, 1.0, 1e-13);
}

TEST(Activation, far_out_values_and_slopes_are_their_limits) {
  for (const Activation kind : kAll) {
    for (const double x : {1e3, 1e4, 1e200}) {
      EXPECT_EQ(activate(kind, x), x);
      EXPECT_EQ(activate(kind, -x), 0.0);
      EXPECT_EQ(activation_slope(kind, x), 1.0);
      EXPECT_EQ(activation_slope(kind, -x), 0.0);
    }
  }
}

TEST(Activation, a_nan_stays_one) {
  for (const Activation kind : kAll) EXPECT_TRUE(std::isnan(activate(kind, std::nan(""))));
}

}  // namespace
}  // namespace prenorm::reference
