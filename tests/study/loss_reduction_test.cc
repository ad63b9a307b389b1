#include "prenorm/study/loss_reduction.h"

#include <gtest/gtest.h>

#include <cmath>

namespace prenorm {
namespace {

using Values = reference::Tensor<double>;
const std::vector<TokenId> kTargets{2, -1, 0};

TEST(LossReduction, the_mean_is_over_the_targets_that_count) {
  const Values losses({3}, {1, 0, 4});
  EXPECT_EQ(reduced_loss(losses, kTargets, LossReduction::kMean)[0], 2.5);
  EXPECT_EQ(reduced_loss(losses, kTargets, LossReduction::kSum)[0], 5.0);
  EXPECT_EQ(reduced_loss(losses, kTargets, LossReduction::kNone), losses);
  EXPECT_TRUE(
      std::isnan(reduced_loss(Values({1}), std::vector<TokenId>{-1}, LossReduction::kMean)[0]));
}

TEST(LossReduction, gradients_are_shared_out_likewise) {
  const Values one({1}, {3.0});
  EXPECT_EQ(loss_gradient(one, kTargets, LossReduction::kMean), Values({3}, {1.5, 1.5, 1.5}));
  EXPECT_EQ(loss_gradient(one, kTargets, LossReduction::kSum), Values({3}, {3, 3, 3}));
  const Values each({3}, {1, 2, 3});
  EXPECT_EQ(loss_gradient(each, kTargets, LossReduction::kNone), each);
  EXPECT_TRUE(loss_gradient({}, kTargets, LossReduction::kMean).absent());
}

}  // namespace
}  // namespace prenorm
