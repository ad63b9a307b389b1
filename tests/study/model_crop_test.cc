#include "prenorm/study/model_crop.h"

#include <gtest/gtest.h>

#include "tests/study/check_fixture.h"

namespace prenorm {
namespace {

TEST(ModelCrop, a_small_model_keeps_its_blocks_and_a_large_one_its_corner) {
  const GptConfig small = small_config();
  const CropSize all = crop_size(small);
  EXPECT_TRUE(all.same_block(small));
  EXPECT_EQ(all, (CropSize{23, 8, 2, 2, 10, 31}));

  const GptConfig gpt2;  // 124M
  EXPECT_EQ(crop_size(gpt2), (CropSize{256, 8, 1, 12, 768, 3072}));

  GptConfig xl;
  xl.n_layer = 48;
  xl.n_head = 25;
  xl.n_embd = 1600;
  const CropSize corner = crop_size(xl);
  EXPECT_FALSE(corner.same_block(xl));
  EXPECT_EQ(corner, (CropSize{256, 8, 1, 16, 1024, 4096}));

  GptConfig one_head;  // heads are not cut
  one_head.n_head = 1;
  one_head.n_embd = 4096;
  EXPECT_EQ(crop_size(one_head).width, 4096);
}

TEST(ModelCrop, a_corner_holds_the_numbers_that_stand_there) {
  const auto model = random_model(small_config());
  const CropSize size{5, 3, 1, 1, 5, 7};
  const auto small = cropped_model(*model, size);
  EXPECT_EQ(small->config().n_layer, 1);
  EXPECT_TRUE(small->config().tie_word_embeddings);
  const auto at = [](const Gpt& m, const std::string& name, Index r, Index c) {
    return m.parameters().find(name)->matrix()[r][c];
  };
  EXPECT_EQ(at(*small, "transformer.wte.weight", 4, 4), at(*model, "transformer.wte.weight", 4, 4));
  EXPECT_EQ(at(*small, "transformer.wpe.weight", 2, 1), at(*model, "transformer.wpe.weight", 2, 1));
  const std::string h = "transformer.h.0.";
  for (Index third = 0; third < 3; ++third) {  // q, k and v are each cut
    EXPECT_EQ(at(*small, h + "attn.c_attn.weight", 2, third * 5 + 4),
              at(*model, h + "attn.c_attn.weight", 2, third * 10 + 4));
    EXPECT_EQ(small->parameters().find(h + "attn.c_attn.bias")->vector()[third * 5 + 1],
              model->parameters().find(h + "attn.c_attn.bias")->vector()[third * 10 + 1]);
  }
  EXPECT_EQ(at(*small, h + "mlp.c_fc.weight", 4, 6), at(*model, h + "mlp.c_fc.weight", 4, 6));
  EXPECT_EQ(at(*small, h + "mlp.c_proj.weight", 6, 4), at(*model, h + "mlp.c_proj.weight", 6, 4));
  EXPECT_EQ(small->parameters().find(h + "ln_2.bias")->vector()[4],
            model->parameters().find(h + "ln_2.bias")->vector()[4]);
}

TEST(ModelCrop, the_whole_of_a_model_computes_what_it_computes) {
  const Runtime run({.threads = 1});
  for (const GptConfig& config : each_kind()) {
    const auto model = random_model(config);
    CropSize size = crop_size(config);
    size.context = config.block_size;
    const auto copy = cropped_model(*model, size);
    const std::vector<TokenId> tokens = random_tokens(9, config.vocab_size, 1);
    EXPECT_EQ(logits_of(run, *model, tokens), logits_of(run, *copy, tokens)) << name(config);
  }
}

}  // namespace
}  // namespace prenorm
