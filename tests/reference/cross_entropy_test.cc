#include "prenorm/reference/cross_entropy.h"

#include <gtest/gtest.h>

#include "tests/reference/values.h"
#include "tests/tolerances.h"

namespace prenorm::reference {
namespace {

TEST(CrossEntropy, equal_logits_cost_the_log_of_the_number_of_classes) {
  const Tensor<double> losses = cross_entropy(Tensor<double>({1, 8}), Tokens({1}, {3}));
  EXPECT_DOUBLE_EQ(losses[0], std::log(8.0));
}

TEST(CrossEntropy, two_classes_by_hand) {
  const Tensor<double> logits({1, 2}, {0.0, std::log(3.0)});  // probabilities 1/4, 3/4
  EXPECT_NEAR(cross_entropy(logits, Tokens({1}, {1}))[0], std::log(4.0 / 3.0),
              tolerance::kDoubleFormula);
  const Tensor<double> d = cross_entropy_backward(logits, Tokens({1}, {1}), 2.0);
  EXPECT_NEAR(d[0], 0.5, tolerance::kDoubleFormula);
  EXPECT_NEAR(d[1], -0.5, tolerance::kDoubleFormula);
}

TEST(CrossEntropy, an_ignored_target_has_no_loss_and_no_gradient) {
  const Tensor<double> logits = val(1, {3, 4});
  const Tokens targets({3}, {2, kIgnoreTarget, 0});
  EXPECT_EQ(cross_entropy(logits, targets)[1], 0.0);
  EXPECT_EQ(count_targets(targets), 2);
  const Tensor<double> d = cross_entropy_backward(logits, targets, 1.0);
  for (Index v = 0; v < 4; ++v) EXPECT_EQ(d(1, v), 0.0);
  EXPECT_NE(d(0, 0), 0.0);
}

TEST(CrossEntropy, smoothing_spreads_the_target_over_all_classes) {
  const Tensor<double> logits({1, 2}, {0.0, std::log(3.0)});
  const Tokens target({1}, {1});
  // 0.8 on the target and 0.2 on the other class: −0.8 log 3/4 − 0.2 log 1/4.
  EXPECT_NEAR(cross_entropy(logits, target, kIgnoreTarget, 0.4)[0],
              -0.8 * std::log(0.75) - 0.2 * std::log(0.25), tolerance::kDoubleFormula);
  const Tensor<double> d = cross_entropy_backward(logits, target, 2.0, kIgnoreTarget, 0.4);
  EXPECT_NEAR(d[0], 2.0 * (0.25 - 0.2), tolerance::kDoubleFormula);
  EXPECT_NEAR(d[1], 2.0 * (0.75 - 0.8), tolerance::kDoubleFormula);
}

TEST(CrossEntropy, huge_logits_do_not_overflow) {
  const Tensor<double> logits({2, 3}, {1000, 0, -1000, 1000, 0, -1000});
  const Tensor<double> losses = cross_entropy(logits, Tokens({2}, {0, 2}));
  EXPECT_EQ(losses.values(), (std::vector<double>{0.0, 2000.0}));
}

TEST(CrossEntropy, a_target_out_of_range_is_named) {
  try {
    cross_entropy(val(1, {1, 5}), Tokens({1}, {-4}));
    FAIL() << "no error";
  } catch (const DataError& error) {
    EXPECT_STREQ(error.what(), "cross_entropy: target: expected 0 to 4 or -1, found -4");
  }
  EXPECT_THROW(cross_entropy(val(1, {1, 5}), Tokens({1}, {5})), DataError);
  EXPECT_THROW(cross_entropy(val(1, {2, 5}), Tokens({1}, {0})), ShapeError);
}

}  // namespace
}  // namespace prenorm::reference
