#include "prenorm/study/kernel_memory.h"

#include <gtest/gtest.h>

#include "prenorm/base/error.h"

namespace prenorm {
namespace {

using Values = reference::Tensor<double>;

TEST(KernelMemory, values_go_into_floats_and_come_back_under_another_shape) {
  const Values x({2, 1, 3}, {1, 2, 3, 4, 5, 0.1});
  const FloatMatrix m(x);
  EXPECT_EQ(m.rows(), 2);
  EXPECT_EQ(m.values({6}).shape(), std::vector<Index>{6});
  EXPECT_EQ(m.values({2, 3})(1, 2), static_cast<double>(0.1f));
  const FloatMatrix wide(x, 5);
  EXPECT_EQ(wide.view()[1][2], 0.1f);
  EXPECT_EQ(wide.view()[1][4], 0.0f);
  EXPECT_EQ(wide.values({2, 3}), m.values({2, 3}));
}

TEST(KernelMemory, a_mask_is_broadcast_over_what_it_has_once) {
  reference::AttentionMask mask;
  mask.added = Values({1, 2, 1, 2}, {1, 2, 3, 4});
  mask.key_padding = reference::Tensor<unsigned char>({3, 2}, {0, 0, 0, 1, 1, 0});
  const FloatMask floats(mask, {3, 2, 1, 2});
  const kernels::AttentionMask view = floats.view();
  for (Index b = 0; b < 3; ++b) {
    EXPECT_EQ(view.added[b][0][0][1], 2.0f);
    EXPECT_EQ(view.added[b][1][0][0], 3.0f);
  }
  EXPECT_EQ(view.key_blocked[1][1], 1);
  mask.added = Values({3, 1, 1, 2}, {1, 2, 3, 4, 5, 6});
  const FloatMask by_sequence(mask, {3, 7, 1, 2});
  EXPECT_EQ(by_sequence.view().added[2][6][0][1], 6.0f);
  EXPECT_FALSE(FloatMask({}, {1, 1, 1, 1}).view());
}

TEST(KernelMemory, parameters_that_are_missing_are_what_changes_nothing) {
  ParameterRegistry parameters;
  const Parameter& weight = parameters.add("h.0.ln_1.weight", {2});
  const Parameter& bias = parameters.add("h.0.ln_1.bias", {2});
  const Parameter& matrix = parameters.add("mlp.c_fc.weight", {1, 2});
  fill_parameters(parameters, {{"mlp.c_fc.weight", Values({1, 2}, {3, 4})}});
  EXPECT_EQ(weight.value[1], 1.0f);
  EXPECT_EQ(bias.value[1], 0.0f);
  EXPECT_EQ(matrix.value[1], 4.0f);
  matrix.grad[0] = 9.0f;
  const ParameterValues gradients = gradients_of(parameters, {{"mlp.c_fc.weight", Values({1, 2})}});
  EXPECT_EQ(gradients.size(), 1u);
  EXPECT_EQ(gradients.at("mlp.c_fc.weight"), Values({1, 2}, {9, 0}));
  ParameterRegistry other;
  other.add("a.weight", {3});
  EXPECT_THROW(fill_parameters(other, {{"a.weight", Values({2})}}), ShapeError);
}

TEST(KernelMemory, only_a_norms_weight_counts_as_one) {
  EXPECT_TRUE(is_norm_weight("ln.weight"));
  EXPECT_TRUE(is_norm_weight("h.0.ln_2.weight"));
  EXPECT_FALSE(is_norm_weight("ln.bias"));
  EXPECT_FALSE(is_norm_weight("ln.c_fc.weight"));
}

}  // namespace
}  // namespace prenorm
