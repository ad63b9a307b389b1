#include "prenorm/reference/multihead_attention.h"

#include <gtest/gtest.h>

#include "tests/reference/values.h"
#include "tests/tolerances.h"

namespace prenorm::reference {
namespace {

// One token sees itself alone: attention hands its value on, whatever the queries and keys.
TEST(MultiheadAttention, of_one_token_is_its_value_projected) {
  const AttentionParameters<double> p = tiny_block().attn;
  const Tensor<double> x = val(1, {1, kWidth});
  const Tensor<double> qkv = linear(x, p.c_attn);
  const Tensor<double> v({1, kWidth}, {qkv.end() - kWidth, qkv.end()});
  EXPECT_EQ(multihead_attention(x, p, tiny_block_options().attn), linear(v, p.c_proj));
}

TEST(MultiheadAttention, without_positions_the_order_of_unmasked_tokens_does_not_matter) {
  MultiheadAttentionOptions options = tiny_block_options().attn;
  options.core.causal = false;
  const Tensor<double> x = val(1, {2, kWidth});
  Tensor<double> swapped({2, kWidth});
  for (Index c = 0; c < kWidth; ++c) swapped(0, c) = x(1, c), swapped(1, c) = x(0, c);
  const Tensor<double> y = multihead_attention(x, tiny_block().attn, options);
  const Tensor<double> z = multihead_attention(swapped, tiny_block().attn, options);
  for (Index c = 0; c < kWidth; ++c) EXPECT_NEAR(y(0, c), z(1, c), tolerance::kDoubleFormula);
}

TEST(MultiheadAttention, its_two_projections_are_recorded) {
  Stages<double> stages;
  const Tensor<double> x = val(1, {3, kWidth});
  const Tensor<double> y = multihead_attention(x, tiny_block().attn, tiny_block_options().attn, {},
                                               Recorder<double>(&stages));
  EXPECT_EQ(*stages.find("c_attn"), linear(x, tiny_block().attn.c_attn));
  EXPECT_EQ(*stages.find("c_proj"), y);
}

}  // namespace
}  // namespace prenorm::reference
