#include "prenorm/study/check_blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "prenorm/reference/layer_norm.h"
#include "prenorm/study/kernel_pass.h"
#include "tests/study/check_fixture.h"

namespace prenorm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(CheckBlocks, models_of_each_kind_have_the_properties) {
  for (const GptConfig& config : each_kind()) {
    EXPECT_THAT(failures(checked(check_blocks, config)), IsEmpty()) << name(config);
  }
  for (const Activation activation : {Activation::kRelu, Activation::kGelu}) {
    GptConfig config = small_config();
    config.bias = false;
    config.activation = activation;
    EXPECT_THAT(failures(checked(check_blocks, config)), IsEmpty());
  }
}

TEST(CheckBlocks, attention_that_sees_one_key_almost_alone_has_them_too) {
  const Runtime run({.threads = 1});
  const auto model = random_model(small_config());
  for (Parameter& p : model->parameters()) {
    if (p.name.find("c_attn") == std::string::npos) continue;
    for (float& w : p.value) w *= 12.0f;  // scores of hundreds
  }
  const CheckSeams seams;
  EXPECT_THAT(failures(check_blocks({run, *model, seams, 1, {}})), IsEmpty());
}

TEST(CheckBlocks, of_a_deep_model_twelve_blocks_are_checked_the_first_and_the_last_among_them) {
  GptConfig deep = small_config();
  deep.n_layer = 30;
  const Runtime run({.threads = 1});
  const auto model = random_model(deep);
  const CheckSeams seams;
  std::vector<std::string> stages;
  const auto found = check_blocks(
      {run, *model, seams, 1, [&](std::string_view stage) { stages.emplace_back(stage); }});
  EXPECT_EQ(stages.size(), 12u);
  EXPECT_EQ(stages.front(), "block 1 of 30");
  EXPECT_EQ(stages.back(), "block 30 of 30");
  EXPECT_THAT(found.front().scope, HasSubstr("12 of 30 blocks"));
  EXPECT_THAT(failures(found), IsEmpty());
}

// The layers of a defect: kernel_pass(), and then `change`.
template <typename Change>
CheckSeams with_changed_layer(ApplyLayer layer, Change change) {
  CheckSeams seams;
  seams.layer = [=](const Runtime& run, const LayerPass& pass) {
    LayerOutcome out = kernel_pass(run, pass);
    if (pass.layer == layer) change(pass, out);
    return out;
  };
  return seams;
}

TEST(CheckBlocks, a_block_without_its_residual_is_no_identity) {
  for (const GptConfig& config : each_kind()) {
    const auto seams =
        with_changed_layer(ApplyLayer::kBlock, [](const LayerPass& pass, LayerOutcome& out) {
          for (Index i = 0; i < out.output.size(); ++i) out.output[i] -= pass.input[i];
        });
    const auto found = failures(checked(check_blocks, config, seams));
    EXPECT_THAT(found, ElementsAre("identity")) << name(config);
  }
}

TEST(CheckBlocks, one_bit_of_one_number_is_enough) {
  const auto seams = with_changed_layer(ApplyLayer::kBlock, [](const auto&, LayerOutcome& out) {
    float value = static_cast<float>(out.output[3]);
    nudge(value);
    out.output[3] = value;
  });
  const auto found = checked(check_blocks, small_config(), seams);
  EXPECT_THAT(failures(found), ElementsAre("identity"));
  EXPECT_EQ(found.front().measured, 2.0);  // one in each block
}

TEST(CheckBlocks, a_defect_in_the_gradient_of_any_one_tensor_is_found) {
  const auto defect = [](const std::string& which) {
    return with_changed_layer(ApplyLayer::kBlock, [which](const auto&, LayerOutcome& out) {
      if (out.dinput.absent()) return;
      Values& gradient = which == "input" ? out.dinput : out.gradients.at(which);
      for (double& g : gradient) g *= 1.01;
    });
  };
  for (const char* which :
       {"input", "h.0.ln_1.bias", "h.0.attn.c_attn.bias", "h.0.mlp.c_proj.weight"}) {
    EXPECT_THAT(failures(checked(check_blocks, small_config(), defect(which))),
                ElementsAre("gradients"))
        << which;
  }
}

TEST(CheckBlocks, norms_by_another_formula_are_found) {
  const auto norm = [](reference::LayerNormMistakes mistakes) {
    return with_changed_layer(ApplyLayer::kLayerNorm, [mistakes](const auto& pass, auto& out) {
      const auto find = [&](const char* name) {
        const auto it = pass.parameters.find(name);
        return it == pass.parameters.end() ? Values() : it->second;
      };
      reference::LayerNormOptions options;
      options.eps = pass.options.eps;
      options.mistakes = mistakes;
      out.output = reference::layer_norm(pass.input, {find("ln.weight"), find("ln.bias")}, options);
    });
  };
  const auto found = [&](reference::LayerNormMistakes mistakes) {
    return failures(checked(check_blocks, small_config(), norm(mistakes)));
  };
  EXPECT_THAT(found({}), IsEmpty());  // the textbook itself
  EXPECT_THAT(found({.ddof = true}), ElementsAre("norm-variance"));
  EXPECT_THAT(found({.eps_place = reference::EpsilonPlace::kOutsideRoot}),
              ElementsAre("norm-variance"));
  EXPECT_THAT(found({.eps_place = reference::EpsilonPlace::kAddedAfter}),
              ElementsAre("norm-mean", "norm-variance"));
  EXPECT_THAT(found({.rms = true}), ElementsAre("norm-mean", "norm-variance"));
}

}  // namespace
}  // namespace prenorm
