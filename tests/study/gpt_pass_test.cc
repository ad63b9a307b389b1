#include "prenorm/study/gpt_pass.h"

#include <gtest/gtest.h>

#include <cmath>

#include "prenorm/reference/adjoint.h"
#include "tests/config_of.h"
#include "tests/tolerances.h"

namespace prenorm {
namespace {

using reference::random_tensor;

GptConfig small(bool tied) {
  GptConfig config = config_of(2, 2, 6, 5, 7);
  config.n_inner = 9;
  config.tie_word_embeddings = tied;
  return config;
}

// Models whose scores are scaled in a way of their own.
std::vector<GptConfig> all_scales(bool tied) {
  std::vector<GptConfig> configs(3, small(tied));
  configs[1].scale_attn_by_inverse_layer_idx = true;
  configs[2].scale_attn_weights = false;
  return configs;
}

GptPass small_pass() {
  GptPass pass;
  pass.batch = 2;
  pass.time = 4;
  pass.tokens = {3, 1, 6, 1, 0, 5, 2, 4};
  pass.targets = {1, -1, 1, 2, 5, 2, -1, 6};
  return pass;
}

ParameterValues fill(Gpt& model) {
  ParameterValues values;
  std::uint64_t seed = 0;
  for (Parameter& p : model.parameters()) {
    const Values x = random_tensor(p.shape, ++seed, 0.7);
    std::transform(x.begin(), x.end(), p.value.begin(),
                   [](double v) { return static_cast<float>(v); });
    values[p.name] = x;
  }
  return values;
}

void expect_near(const Values& found, const Values& expected) {
  ASSERT_EQ(found.shape(), expected.shape());
  double error = 0.0, norm = 0.0;
  for (Index i = 0; i < found.size(); ++i) {
    error += (found[i] - expected[i]) * (found[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  EXPECT_LE(std::sqrt(error), tolerance::kFloatGradientNorm * std::sqrt(norm));
}

void expect_near(const GptOutcome& found, const GptOutcome& expected) {
  expect_near(found.logits, expected.logits);
  expect_near(found.loss, expected.loss);
  ASSERT_EQ(found.gradients.size(), expected.gradients.size());
  for (const auto& [name, gradient] : expected.gradients) {
    SCOPED_TRACE(name);
    expect_near(found.gradients.at(name), gradient);
  }
}

class GptPassTest : public testing::TestWithParam<bool> {};

TEST_P(GptPassTest, kernels_and_textbook_agree_with_and_without_masks) {
  for (const GptConfig& config : all_scales(GetParam())) {
    Gpt model(config);
    const ParameterValues values = fill(model);
    GptPass pass = small_pass();
    const Runtime run(Runtime::Options{2, "auto"});
    expect_near(gpt_by_kernels(run, model, pass), gpt_by_textbook(config, values, pass));
    pass.mask.added = random_tensor({1, 2, 4, 4}, 50);
    pass.mask.key_padding = reference::Tensor<unsigned char>({2, 4}, {0, 0, 0, 1, 0, 1, 0, 0});
    expect_near(gpt_by_kernels(run, model, pass), gpt_by_textbook(config, values, pass));
    pass.targets.clear();
    pass.grad_output = random_tensor({8, 7}, 60);
    const GptOutcome found = gpt_by_kernels(run, model, pass);
    expect_near(found, gpt_by_textbook(config, values, pass));
    EXPECT_TRUE(found.loss.absent());
    EXPECT_EQ(found.gradients.size(), model.parameters().count());
  }
}

// A mask that blocks nothing leads through the layers one by one.
TEST_P(GptPassTest, the_model_and_its_layers_one_by_one_give_the_same_logits) {
  Gpt model(small(GetParam()));
  fill(model);
  GptPass pass = small_pass();
  const Runtime run;
  const GptOutcome whole = gpt_by_kernels(run, model, pass);
  pass.mask.key_padding = reference::Tensor<unsigned char>({2, 4});
  const GptOutcome layers = gpt_by_kernels(run, model, pass);
  EXPECT_EQ(layers.logits, whole.logits);
  expect_near(layers, whole);
}

INSTANTIATE_TEST_SUITE_P(TiedAndNot, GptPassTest, testing::Bool());

TEST(GptPass, without_targets_there_are_logits_alone) {
  Gpt model(small(true), Gpt::Mode::kInference);
  const ParameterValues values = fill(model);
  GptPass pass = small_pass();
  pass.targets.clear();
  for (const GptOutcome& out :
       {gpt_by_kernels(Runtime(), model, pass), gpt_by_textbook(model.config(), values, pass)}) {
    EXPECT_EQ(out.logits.shape(), (std::vector<Index>{8, 7}));
    EXPECT_TRUE(out.loss.absent() && out.gradients.empty());
  }
}

}  // namespace
}  // namespace prenorm
