#include "prenorm/study/diagnose_model.h"

#include <gmock/gmock.h>

#include "prenorm/base/error.h"
#include "prenorm/formats/safetensors.h"
#include "prenorm/model/checkpoint.h"
#include "tests/config_of.h"
#include "tests/study/diagnose_testing.h"
#include "tests/temporary_folder.h"

namespace prenorm {
namespace {

GptConfig tiny() { return config_of(2, 2, 8, 8, 11); }

TEST(DiagnoseModel, is_read_from_a_model_folder) {
  const TemporaryFolder folder("diagnose-model");
  Gpt gpt(tiny(), Gpt::Mode::kInference);
  gpt.initialize(3);
  save_pretrained(gpt, folder.path());
  const DiagnoseModel model = read_diagnose_model(folder.path());
  EXPECT_EQ(model.layers(), 2);
  EXPECT_EQ(model.width(), 8);
  EXPECT_EQ(model.inner(), 32);
  EXPECT_EQ(model.vocabulary(), 11);
  const Parameter& weight = *gpt.parameters().find("transformer.h.1.attn.c_attn.weight");
  EXPECT_TRUE(std::ranges::equal(model.parameters.h[1].attn.c_attn.weight, weight.value));
  EXPECT_FALSE(model.options().h[0].attn.core.scale);
}

TEST(DiagnoseModel, a_scale_of_the_configuration_is_an_option) {
  const TemporaryFolder folder("diagnose-model");
  GptConfig config = tiny();
  config.scale_attn_by_inverse_layer_idx = true;
  save_pretrained(Gpt(config, Gpt::Mode::kInference), folder.path());
  const auto options = read_diagnose_model(folder.path()).options();
  EXPECT_EQ(options.h[1].attn.core.scale, 0.25);  // 1/√4 of the head, 1/2 of the layer
}

TEST(DiagnoseModel, weights_that_are_not_finite_are_refused) {
  const TemporaryFolder folder("diagnose-model");
  Gpt gpt(tiny(), Gpt::Mode::kInference);
  gpt.parameters().find("transformer.ln_f.weight")->value[3] = NAN;
  save_pretrained(gpt, folder.path());
  try {
    read_diagnose_model(folder.path());
    ADD_FAILURE() << "nothing thrown";
  } catch (const FormatError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("transformer.ln_f.weight"));
  }
}

TEST(DiagnoseModel, a_block_needs_heads_that_divide_its_width) {
  const TensorFile none("none", {});
  EXPECT_THROW(diagnose_block_model(none, {}, 8), ConfigError);
  ApplyOptions options;
  options.heads = 3;
  EXPECT_THROW(diagnose_block_model(none, options, 8), ConfigError);
  options.heads = 2;
  EXPECT_THROW(diagnose_block_model(none, options, 8), FormatError);
}

TEST(DiagnoseModel, rounding_rounds_every_parameter) {
  const DiagnoseModel model = small_diagnose_model();
  const DiagnoseModel small = rounded(model, reference::Numbers::kBfloat16);
  const float before = model.parameters.embedding.wte[0], after = small.parameters.embedding.wte[0];
  EXPECT_NE(before, after);
  EXPECT_NEAR(before, after, std::abs(before) * 0x1p-8);
}

}  // namespace
}  // namespace prenorm
