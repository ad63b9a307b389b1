#include "prenorm/train/non_finite.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/train/small_run.h"

namespace prenorm {
namespace {

using testing_support::small_config;
using testing_support::small_text;

const float kNan = std::numeric_limits<float>::quiet_NaN();

struct Scale {
  const char* parameter;
  float factor;
};

// What a pass of a small model finds after some of its weights were made that many times larger.
std::optional<NonFinite> traced(const std::vector<Scale>& scales,
                                NormPlacement norm = NormPlacement::kPre) {
  GptConfig config = small_config();
  config.norm = norm;
  Gpt model(config);
  model.initialize(3);
  for (const auto& [name, factor] : scales) {
    for (float& w : model.parameters().find(name)->value) w *= factor;
  }
  const Runtime run({.threads = 1});
  const std::vector<TokenId> text = small_text(17);
  Gpt::Workspace work = model.make_workspace(1, 16);
  NonFiniteTrace trace(model);
  const LossSum loss = model.forward_backward(
      run, work, {{text.data(), {1, 16}}, {text.data() + 1, {1, 16}}}, 1.0, {}, trace.observer());
  trace.look_at_loss(loss.mean());
  return trace.found();
}

TEST(NonFinite, a_finite_step_has_none) {
  EXPECT_FALSE(traced({}));
  EXPECT_FALSE(traced({}, NormPlacement::kPost));
}

TEST(NonFinite, it_is_found_in_the_layer_and_stage_where_it_came_to_be) {
  const auto at = [](const std::vector<Scale>& scales, NormPlacement norm = NormPlacement::kPre) {
    const auto found = traced(scales, norm);
    return found ? found->pass + " " + std::to_string(found->layer) + " " + found->stage
                 : std::string("nothing");
  };
  const NormPlacement post = NormPlacement::kPost;
  EXPECT_EQ(at({{"transformer.wte.weight", 3e38f},
                {"transformer.wpe.weight", 3e38f},
                {"transformer.wte.weight", 100.0f}}),
            "forward -1 transformer.drop");
  EXPECT_EQ(at({{"transformer.h.1.ln_1.weight", 3e38f},
                {"transformer.h.1.ln_1.weight", 0.9f},
                {"transformer.h.1.attn.c_attn.weight", 1e3f}}),
            "forward 1 transformer.h.1.attn.c_attn");
  EXPECT_EQ(at({{"transformer.h.1.attn.c_attn.weight", 1e28f}}),
            "forward 1 transformer.h.1.attn scores");
  EXPECT_EQ(at({{"transformer.h.1.mlp.c_fc.weight", 1e25f},
                {"transformer.h.1.mlp.c_proj.weight", 1e25f}}),
            "forward 1 transformer.h.1.mlp.c_proj");
  EXPECT_EQ(
      at({{"transformer.h.0.mlp.c_fc.weight", 1e25f}, {"transformer.h.0.mlp.c_proj.weight", 1e25f}},
         post),
      "forward 0 transformer.h.0.mlp.c_proj");
  EXPECT_EQ(at({{"transformer.ln_f.weight", 5e37f}, {"transformer.wte.weight", 1e3f}}),
            "loss -1 loss");
}

// The backward pass by hand: a gradient that is not finite in one place after another.
TEST(NonFinite, in_the_backward_pass_the_blocks_parameters_come_before_its_stream) {
  Gpt model(small_config());
  const auto plant = [&](const std::string& parameter) {
    model.parameters().zero_grad();
    if (!parameter.empty()) model.parameters().find(parameter)->grad[1] = kNan;
  };
  std::vector<float> stream(16, 0.0f);
  const ConstMatrix gradient(stream.data(), {1, 16});
  const auto found = [&](const std::vector<Index>& layers) {
    NonFiniteTrace trace(model);
    for (const Index layer : layers) trace.observer()->on_gradient(layer, gradient);
    trace.look_at_loss(1.0);
    return trace.found() ? trace.found()->pass + " " + std::to_string(trace.found()->layer) + " " +
                               trace.found()->stage
                         : std::string("nothing");
  };
  plant("");
  EXPECT_EQ(found({2, 1, 0}), "nothing");
  plant("transformer.h.1.mlp.c_fc.bias");
  EXPECT_EQ(found({2, 1, 0}), "backward 1 gradient of transformer.h.1.mlp.c_fc.bias");
  plant("transformer.wpe.weight");
  EXPECT_EQ(found({2, 1, 0}), "backward -1 gradient of transformer.wpe.weight");
  stream[3] = kNan;
  plant("transformer.h.1.attn.c_attn.weight");
  EXPECT_EQ(found({1}), "backward 1 gradient of transformer.h.1.attn.c_attn.weight");
  plant("");
  EXPECT_EQ(found({1}), "backward 1 gradient of the stream before transformer.h.1");
  EXPECT_EQ(found({2}), "backward -1 gradient of the stream before transformer.ln_f");
}

TEST(NonFinite, a_bad_loss_comes_before_the_gradients_that_it_makes_bad) {
  Gpt model(small_config());
  std::vector<float> stream(16, kNan);
  NonFiniteTrace trace(model);
  trace.observer()->on_gradient(1, {stream.data(), {1, 16}});
  trace.look_at_loss(std::numeric_limits<double>::infinity());
  ASSERT_TRUE(trace.found());
  EXPECT_EQ(trace.found()->pass, "loss");
  EXPECT_TRUE(std::isinf(trace.found()->value));
}

TEST(NonFinite, values_are_told_without_the_sign_of_a_nan) {
  EXPECT_EQ(value_text(static_cast<double>(kNan)), "nan");
  EXPECT_EQ(value_text(-static_cast<double>(kNan)), "nan");
  EXPECT_EQ(value_text(std::numeric_limits<double>::infinity()), "inf");
  EXPECT_EQ(value_text(-std::numeric_limits<double>::infinity()), "-inf");
}

}  // namespace
}  // namespace prenorm
