#include "prenorm/study/growth.h"

#include <gtest/gtest.h>

#include <cmath>

#include "prenorm/base/error.h"
#include "prenorm/study/gpt_pass.h"
#include "tests/study/check_fixture.h"
#include "tests/tolerances.h"

namespace prenorm {
namespace {

enum Stack { kNoNorm, kNormAfter, kPreNorm, kPostNorm };

std::vector<GrowthCurve> lesson() { return stack_growth({.layers = 12, .width = 128}); }

TEST(Growth, without_a_norm_each_layer_of_gain_four_multiplies_by_four) {
  const GrowthCurve c = lesson()[kNoNorm];
  ASSERT_EQ(c.forward.size(), 13u);
  for (int l = 0; l <= 3; ++l) {  // the card's 1, 4, 16, 64
    EXPECT_NEAR(c.forward[static_cast<std::size_t>(l)] / std::pow(4.0, l), 1.0,
                tolerance::kRandomGain)
        << l;
  }
  for (std::size_t l = 0; l < 12; ++l) {
    EXPECT_NEAR(c.forward[l + 1] / c.forward[l], 4.0, 4.0 * tolerance::kRandomGain) << l;
    EXPECT_NEAR(c.backward[l] / c.backward[l + 1], 4.0, 4.0 * tolerance::kRandomGain) << l;
    EXPECT_EQ(c.branch[l], c.forward[l]);  // f reads the stream itself
  }
}

TEST(Growth, a_norm_after_each_layer_holds_the_stream_at_one_whatever_the_gain) {
  for (const double gain : {0.25, 4.0, 100.0}) {
    const auto c = stack_growth({.layers = 12, .width = 128, .gain = gain})[kNormAfter];
    for (std::size_t l = 1; l <= 12; ++l) EXPECT_NEAR(c.forward[l], 1.0, tolerance::kUnitSize) << l;
    EXPECT_NEAR(c.backward.front(), 1.0, tolerance::kRandomGradient);
  }
}

TEST(Growth, a_pre_norm_stream_is_not_reset_it_grows_like_the_root_of_the_depth) {
  const GrowthCurve c = lesson()[kPreNorm];
  const std::vector<double> root = square_root_growth(12);
  EXPECT_EQ(root.front(), 1.0);
  EXPECT_EQ(root.back(), std::sqrt(13.0));
  for (std::size_t l = 0; l <= 12; ++l) {
    EXPECT_NEAR(c.forward[l] / root[l], 1.0, tolerance::kRandomGain) << l;
    EXPECT_NEAR(c.backward[l] * root[l] / c.backward[12] / root[12], 1.0,
                2 * tolerance::kRandomGain)
        << l;
  }
  for (const double read : c.branch)
    EXPECT_NEAR(read, 1.0, tolerance::kUnitSize);  // only this is reset
}

TEST(Growth, a_post_norm_stream_is_reset_after_each_addition) {
  const GrowthCurve c = lesson()[kPostNorm];
  for (std::size_t l = 1; l <= 12; ++l) EXPECT_NEAR(c.forward[l], 1.0, tolerance::kUnitSize) << l;
  for (std::size_t l = 1; l < 12; ++l) EXPECT_EQ(c.branch[l], c.forward[l]);
  // x + f(x) doubles the variance of the gradient and the norm halves it.
  for (const double d : c.backward) EXPECT_NEAR(d, 1.0, tolerance::kRandomGradient);
}

// f is linear where there is no norm: ⟨dy, f(x)⟩ = ⟨f'(dy), x⟩ would hold number for number. Of
// sizes alone: with one layer of width 1 both are the same factor.
TEST(Growth, one_layer_of_one_number_has_the_same_factor_forward_and_back) {
  const auto c = stack_growth({.layers = 1, .width = 1, .tokens = 1, .gain = 3.0})[kNoNorm];
  EXPECT_NEAR(c.forward[1] / c.forward[0], c.backward[0] / c.backward[1],
              tolerance::kDoubleFormula * 10);
}

TEST(Growth, curves_are_a_function_of_the_seed_and_say_what_they_mean) {
  const auto a = lesson(), b = lesson();
  const auto c = stack_growth({.layers = 12, .width = 128, .seed = 2});
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].forward, b[i].forward);
    EXPECT_EQ(a[i].backward, b[i].backward);
    EXPECT_NE(a[i].backward, c[i].backward);
    EXPECT_FALSE(a[i].meaning.empty());
  }
  EXPECT_THROW(stack_growth({.layers = 0}), ConfigError);
  EXPECT_THROW(stack_growth({.gain = 0.0}), ConfigError);
  EXPECT_THROW(stack_growth({.gain = std::nan("")}), ConfigError);
}

double rms(const Values& x) {
  double sum = 0.0;
  for (const double v : x) sum += v * v;
  return std::sqrt(sum / static_cast<double>(x.size()));
}

TEST(Growth, a_models_sizes_are_those_of_the_textbooks_stages) {
  const Runtime run({.threads = 2});
  for (const GptConfig& config : each_kind()) {
    Gpt model(config, Gpt::Mode::kTraining);
    const auto source = random_model(config);
    std::ranges::copy(source->parameters().values(), model.parameters().values().begin());
    const auto tokens = random_tokens(19, config.vocab_size, 1);
    const TokenBatch batch{{tokens.data(), {2, 9}}, {tokens.data() + 1, {2, 9}}};
    const GrowthCurve found = model_growth(run, model, batch);

    ParameterValues map;
    for (const Parameter& p : model.parameters()) {
      map[p.name] = Values(p.shape, {p.value.begin(), p.value.end()});
    }
    reference::Stages<double> stages;
    const reference::Tokens in({2, 9}, {tokens.begin(), tokens.begin() + 18});
    reference::gpt(in, reference::from_map(map, 2), textbook_options(config), {},
                   reference::Recorder<double>(&stages));
    const auto expect = [&](double size, const char* stage) {
      EXPECT_NEAR(size, rms(*stages.find(stage)), tolerance::kFloatNorm * size)
          << stage << " " << name(config);
    };
    ASSERT_EQ(found.forward.size(), 3u);
    expect(found.forward[0], "transformer.drop");
    expect(found.forward[1], "transformer.h.0");
    expect(found.forward[2], "transformer.h.1");
    if (config.norm == NormPlacement::kPre) {
      expect(found.branch[1], "transformer.h.1.ln_1");
    } else {
      expect(found.branch[1], "transformer.h.0");
    }
    EXPECT_EQ(found.name, config.norm == NormPlacement::kPre ? "pre-norm" : "post-norm");
  }
}

TEST(Growth, a_models_gradients_are_those_of_a_training_pass_and_nothing_is_left_behind) {
  const Runtime run({.threads = 1});
  const GptConfig config = small_config();
  Gpt model(config, Gpt::Mode::kTraining);
  model.initialize(3);
  const std::vector<float> weights(model.parameters().values().begin(),
                                   model.parameters().values().end());
  const auto tokens = random_tokens(10, config.vocab_size, 1);
  const TokenBatch batch{{tokens.data(), {1, 9}}, {tokens.data() + 1, {1, 9}}};
  const GrowthCurve found = model_growth(run, model, batch);
  EXPECT_TRUE(std::ranges::equal(weights, model.parameters().values()));
  EXPECT_TRUE(std::ranges::all_of(model.parameters().grads(), [](float g) { return g == 0.0f; }));

  Gpt::Workspace work = model.make_workspace(1, 9);
  model.forward_backward(run, work, batch, 1.0 / 9.0, {});
  double block = 0.0, positions = 0.0;
  for (const Parameter& p : model.parameters()) {
    for (const float g : p.grad) {
      const double square = static_cast<double>(g) * static_cast<double>(g);
      if (p.name.starts_with("transformer.h.1.")) block += square;
      if (p.name == "transformer.wpe.weight") positions += square;  // each occurs once
    }
  }
  EXPECT_NEAR(found.parameters[1], std::sqrt(block), tolerance::kDoubleSum);
  EXPECT_NEAR(found.backward[0], std::sqrt(positions / 90.0), tolerance::kDoubleSum);
}

}  // namespace
}  // namespace prenorm
