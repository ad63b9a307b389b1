#include "prenorm/reference/softmax.h"
#include "tests/tolerances.h"

#include <gtest/gtest.h>

namespace prenorm::reference {
namespace {

TEST(Softmax, is_the_same_for_shifted_scores) {
  const Tensor<double> x({1, 3}, {1.0, 2.0, 3.0}), far({1, 3}, {1001.0, 1002.0, 1003.0});
  EXPECT_EQ(softmax(x), softmax(far));
  EXPECT_NEAR(softmax(x)[2], 1.0 / (1.0 + std::exp(-1.0) + std::exp(-2.0)),
              tolerance::kDoubleFormula);
}

TEST(Softmax, what_is_not_seen_has_no_share_even_if_it_is_not_a_number) {
  const std::vector<double> score{std::nan(""), 2.0, 2.0, HUGE_VAL};
  std::vector<double> p(4, -1.0);
  const auto at = [](Index i) { return static_cast<std::size_t>(i); };
  softmax_over(
      4, [&](Index i) { return score[at(i)]; }, [](Index i) { return i == 1 || i == 2; },
      [&](Index i) -> double& { return p[at(i)]; });
  EXPECT_EQ(p, (std::vector<double>{0.0, 0.5, 0.5, 0.0}));
}

TEST(Softmax, of_nothing_seen_is_zero) {
  std::vector<double> p(3, -1.0);
  softmax_over(
      3, [](Index) { return 1.0; }, [](Index) { return false; },
      [&](Index i) -> double& { return p[static_cast<std::size_t>(i)]; });
  EXPECT_EQ(p, std::vector<double>(3, 0.0));
}

}  // namespace
}  // namespace prenorm::reference
