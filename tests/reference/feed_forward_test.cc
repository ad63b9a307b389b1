#include "prenorm/reference/feed_forward.h"

#include <gtest/gtest.h>

#include "tests/reference/values.h"

namespace prenorm::reference {
namespace {

TEST(FeedForward, one_number_by_hand) {
  // a = 3 x − 2, h = max(a, 0), y = 5 h + 1
  const FeedForwardParameters<double> p{{Tensor<double>({1, 1}, std::vector<double>{3.0}),
                                         Tensor<double>({1}, std::vector<double>{-2.0})},
                                        {Tensor<double>({1, 1}, std::vector<double>{5.0}),
                                         Tensor<double>({1}, std::vector<double>{1.0})}};
  const FeedForwardOptions relu{.act = {.kind = Activation::kRelu}};
  const Tensor<double> x({2, 1}, {2.0, 0.5}), ones = Tensor<double>::filled({2, 1}, 1.0);
  EXPECT_EQ(feed_forward(x, p, relu).values(), (std::vector<double>{21.0, 1.0}));
  const auto [dx, dp] = feed_forward_backward(ones, x, p, relu);
  EXPECT_EQ(dx.values(), (std::vector<double>{15.0, 0.0}));
  EXPECT_EQ(dp.c_fc.weight[0], 10.0);  // 5 · 2, the second row is switched off
  EXPECT_EQ(dp.c_fc.bias[0], 5.0);
  EXPECT_EQ(dp.c_proj.weight[0], 4.0);  // h of the first row
  EXPECT_EQ(dp.c_proj.bias[0], 2.0);
}

TEST(FeedForward, works_on_each_row_alone) {
  const Tensor<double> x = val(1, {3, kWidth});
  const Tensor<double> row({1, kWidth}, {x.begin() + kWidth, x.begin() + 2 * kWidth});
  const Tensor<double> all = feed_forward(x, tiny_block().mlp);
  const Tensor<double> alone = feed_forward(row, tiny_block().mlp);
  for (Index c = 0; c < kWidth; ++c) EXPECT_EQ(alone[c], all(1, c));
}

}  // namespace
}  // namespace prenorm::reference
