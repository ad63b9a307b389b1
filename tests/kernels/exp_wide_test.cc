#include "prenorm/kernels/exp_wide.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace prenorm::kernels {
namespace {

TEST(ExpWide, is_within_two_ulp_on_every_instruction_set_and_length) {
  for (const Isa isa : supported_isas()) {
    for (const Index n : {1, 3, 8, 19, 20'001}) {
      std::vector<double> x(static_cast<std::size_t>(n));
      for (std::size_t i = 0; i < x.size(); ++i) {
        x[i] = -700.0 + 1400.0 * static_cast<double>(i) / 20'001.0 + 1e-3;
      }
      std::vector<double> y = x;
      exp_wide(isa, n, y.data());
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double want = std::exp(x[i]);
        const double ulp = std::nextafter(want, HUGE_VAL) - want;
        EXPECT_LE(std::abs(y[i] - want), 2.0 * ulp) << isa_name(isa) << " " << x[i];
      }
    }
  }
}

TEST(ExpWide, a_score_that_is_not_seen_has_no_weight) {
  for (const Isa isa : supported_isas()) {
    double x[] = {-std::numeric_limits<double>::infinity(), -1e6, 0.0, 1e6};
    exp_wide(isa, 4, x);
    EXPECT_EQ(x[0], 0.0);
    EXPECT_EQ(x[1], 0.0);
    EXPECT_EQ(x[2], 1.0);
    EXPECT_EQ(x[3], std::numeric_limits<double>::infinity());
  }
}

}  // namespace
}  // namespace prenorm::kernels
