#include "prenorm/reference/transformer_block.h"

#include <gtest/gtest.h>

#include "prenorm/reference/gpt_parameters.h"
#include "tests/reference/values.h"

namespace prenorm::reference {
namespace {

BlockParameters<double> with_zero_sublayers() {
  BlockParameters<double> p = tiny_block();
  for (LinearParameters<double>* last : {&p.attn.c_proj, &p.mlp.c_proj}) {
    last->weight = zeros_like(last->weight);
    last->bias = zeros_like(last->bias);
  }
  return p;
}

TEST(TransformerBlock, with_zero_sublayers_a_pre_norm_block_is_the_identity) {
  const Tensor<double> x = val(1, {2, 4, kWidth});
  EXPECT_EQ(transformer_block(x, with_zero_sublayers(), tiny_block_options()), x);
}

TEST(TransformerBlock, with_zero_sublayers_a_post_norm_block_is_its_two_norms) {
  const Tensor<double> x = val(1, {2, 4, kWidth});
  const BlockParameters<double> p = with_zero_sublayers();
  EXPECT_EQ(transformer_block(x, p, tiny_block_options(NormPlacement::kPost)),
            layer_norm(layer_norm(x, p.ln_1), p.ln_2));
}

TEST(TransformerBlock, with_zero_sublayers_a_missing_residual_loses_the_input) {
  BlockOptions options = tiny_block_options();
  options.mistakes.residual = ResidualMistake::kMissing;
  const Tensor<double> x = val(1, {2, 4, kWidth});
  EXPECT_EQ(transformer_block(x, with_zero_sublayers(), options), zeros_like(x));
}

TEST(TransformerBlock, output_row_t_depends_on_the_rows_up_to_t_alone) {
  for (const NormPlacement norm : {NormPlacement::kPre, NormPlacement::kPost}) {
    const Tensor<double> x = val(1, {1, 4, kWidth});
    const Tensor<double> y = transformer_block(x, tiny_block(), tiny_block_options(norm));
    for (Index changed = 0; changed < 4; ++changed) {
      Tensor<double> other = x;
      other(changed, 2) += 1.0;
      const Tensor<double> moved = transformer_block(other, tiny_block(), tiny_block_options(norm));
      for (Index t = 0; t < 4; ++t) {
        for (Index c = 0; c < kWidth; ++c) {
          EXPECT_EQ(moved(t, c) == y(t, c), t < changed) << changed << " " << t;
        }
      }
    }
  }
}

TEST(TransformerBlock, a_sequence_does_not_see_the_rest_of_its_batch) {
  const Tensor<double> x = val(1, {2, 4, kWidth});
  const Tensor<double> second({4, kWidth}, {x.begin() + 4 * kWidth, x.end()});
  const Tensor<double> both = transformer_block(x, tiny_block(), tiny_block_options());
  const Tensor<double> alone = transformer_block(second, tiny_block(), tiny_block_options());
  for (Index i = 0; i < alone.size(); ++i) EXPECT_EQ(alone[i], both[4 * kWidth + i]);
}

TEST(TransformerBlock, the_norm_placements_record_what_their_norms_return) {
  const Tensor<double> x = val(1, {1, 4, kWidth});
  const BlockParameters<double> p = tiny_block();
  Stages<double> pre, post;
  transformer_block(x, p, tiny_block_options(), {}, Recorder<double>(&pre));
  transformer_block(x, p, tiny_block_options(NormPlacement::kPost), {}, Recorder<double>(&post));
  EXPECT_EQ(*pre.find("ln_1"), layer_norm(x, p.ln_1));
  EXPECT_EQ(*post.find("ln_1"), layer_norm(add(x, *post.find("attn.c_proj")), p.ln_1));
  EXPECT_EQ(pre.entries().size(), 7u);
}

TEST(TransformerBlock, float_and_long_double_agree_with_double_to_their_precision) {
  const Tensor<double> x = val(1, {1, 4, kWidth});
  const auto run = [&]<typename S>(S) {
    const BlockParameters<S> p = cast<S>(tiny_block());
    return cast<double>(transformer_block(cast<S>(x), p, tiny_block_options()));
  };
  const Tensor<double> y = run(0.0);
  EXPECT_LT(largest_difference(run(0.0L), y), 1e-14);
  EXPECT_LT(largest_difference(run(0.0f), y), 1e-5);
  EXPECT_GT(largest_difference(run(0.0f), y), 0.0);
}

}  // namespace
}  // namespace prenorm::reference
