#include "prenorm/reference/attention.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/reference/expected_values.h"
#include "tests/reference/values.h"

namespace prenorm::reference {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

AttentionMask named_mask(std::string_view name) {
  AttentionMask mask;
  if (name == "blocked") {
    mask.blocked = Tensor<unsigned char>({4, 4}, {0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 1, 0});
  }
  if (name == "added") mask.added = val(3, {4, 4}, 128);
  if (name == "key_padding") {
    mask.key_padding = Tensor<unsigned char>({2, 4}, {0, 1, 0, 0, 0, 0, 0, 1});
  }
  return mask;
}

TEST(Attention, every_mask_gives_what_pytorch_gives) {
  const Tensor<double> qkv = val(1, {2, 4, 18}, 256), dout = val(4, {2, 4, 6});
  for (const expected::OutputAndGradient& row : expected::kMasks) {
    const AttentionMask mask = named_mask(row.name);
    EXPECT_NEAR(checksum(attention(qkv, {.heads = 3}, mask)), row.output, 1e-12) << row.name;
    const Tensor<double> dqkv = attention_backward(dout, qkv, {.heads = 3}, mask);
    EXPECT_NEAR(checksum(dqkv), row.gradient, 1e-12) << row.name;
  }
}

TEST(Attention, one_head_by_hand) {
  // Equal scores: the second token's output is the mean of the two values.
  const Tensor<double> qkv({2, 3}, {0.0, 1.0, 10.0, 0.0, 1.0, 20.0});
  EXPECT_EQ(attention(qkv, {.heads = 1}), Tensor<double>({2, 1}, {10.0, 15.0}));
  EXPECT_EQ(attention(qkv, {.heads = 1, .causal = false}), Tensor<double>({2, 1}, {15.0, 15.0}));
}

TEST(Attention, outputs_before_a_token_do_not_move_with_it) {
  const Tensor<double> qkv = val(1, {2, 5, 12});
  const Tensor<double> out = attention(qkv, {.heads = 2});
  Tensor<double> changed = qkv;
  for (Index c = 0; c < 12; ++c) changed(3, c) += 1.0;
  const Tensor<double> moved = attention(changed, {.heads = 2});
  for (Index t = 0; t < 10; ++t) {
    for (Index c = 0; c < 4; ++c) {
      EXPECT_EQ(moved(t, c) == out(t, c), t < 3 || t >= 5) << t;
    }
  }
}

TEST(Attention, a_query_that_sees_no_key_has_output_and_gradient_zero) {
  const Tensor<double> qkv = val(1, {3, 6}), dout = val(2, {3, 2});
  AttentionMask mask;
  mask.blocked = Tensor<unsigned char>({3, 3}, {1, 0, 0, 0, 0, 0, 1, 1, 1});
  const Tensor<double> out = attention(qkv, {.heads = 1}, mask);
  const Tensor<double> dqkv = attention_backward(dout, qkv, {.heads = 1}, mask);
  for (Index c = 0; c < 2; ++c) {
    EXPECT_EQ(out(0, c), 0.0);
    EXPECT_NE(out(1, c), 0.0);
    EXPECT_EQ(out(2, c), 0.0);
    EXPECT_EQ(dqkv(0, c), 0.0);
    EXPECT_EQ(dqkv(2, c), 0.0);
  }
  for (const double d : dqkv) EXPECT_TRUE(std::isfinite(d));
}

TEST(Attention, an_added_minus_infinity_blocks_as_a_boolean_mask_does) {
  const Tensor<double> qkv = val(1, {2, 4, 18});
  AttentionMask blocked = named_mask("blocked"), added;
  added.added = Tensor<double>({4, 4});
  for (Index i = 0; i < 16; ++i) added.added[i] = blocked.blocked[i] != 0 ? -kInfinity : 0.0;
  EXPECT_EQ(attention(qkv, {.heads = 3}, added), attention(qkv, {.heads = 3}, blocked));
}

TEST(Attention, probabilities_of_a_row_add_up_to_one) {
  const Tensor<double> p = attention_probabilities(val(1, {5, 4}), val(2, {5, 4}), {}, {}, 0);
  for (Index t = 0; t < 5; ++t) {
    double sum = 0.0;
    for (Index s = 0; s < 5; ++s) sum += p(t, s);
    EXPECT_NEAR(sum, 1.0, 1e-15);
  }
}

// A decode step: fewer queries than keys, the last query at the last key.
TEST(Attention, new_queries_against_all_keys_equal_the_last_rows_of_the_whole) {
  const Tensor<double> q = val(1, {5, 4}), k = val(2, {5, 4}), v = val(3, {5, 4});
  const Tensor<double> whole = scaled_dot_product_attention(q, k, v);
  const Tensor<double> last({2, 4}, {q.begin() + 12, q.end()});
  const Tensor<double> step = scaled_dot_product_attention(last, k, v);
  for (Index i = 0; i < 8; ++i) EXPECT_EQ(step[i], whole[12 + i]);
}

TEST(Attention, wrong_heads_and_masks_are_refused) {
  EXPECT_THROW(attention(val(1, {2, 4, 18}), {.heads = 4}), ShapeError);
  EXPECT_THROW(attention(val(1, {2, 4, 18}), {.heads = 0}), ShapeError);
  AttentionMask mask;
  mask.blocked = Tensor<unsigned char>({3, 3});
  EXPECT_THROW(attention(val(1, {2, 4, 18}), {.heads = 3}, mask), ShapeError);
}

TEST(Attention, an_empty_batch_or_sequence_is_empty) {
  EXPECT_EQ(attention(Tensor<double>({0, 3, 12}), {.heads = 2}).shape(),
            (std::vector<Index>{0, 3, 4}));
  EXPECT_EQ(attention(Tensor<double>({2, 0, 12}), {.heads = 2}).shape(),
            (std::vector<Index>{2, 0, 4}));
}

}  // namespace
}  // namespace prenorm::reference
