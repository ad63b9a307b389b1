#include "prenorm/train/adamw.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "prenorm/base/error.h"

namespace prenorm {
namespace {

struct Model {
  explicit Model(bool gradients = true) {
    parameters.add("weight", {2, 2});
    parameters.add("bias", {2}, false);
    parameters.allocate(gradients);
    put({0.5f, -0.25f, 1.5f, 2.0f, 0.1f, -0.3f}, &Parameter::value);
  }
  void set_grads(const std::vector<float>& grads) { put(grads, &Parameter::grad); }
  std::vector<float> values() const { return get(&Parameter::value); }
  std::vector<float> grads() const { return get(&Parameter::grad); }

  void put(const std::vector<float>& from, std::span<float> Parameter::*to) {
    auto next = from.begin();
    for (Parameter& p : parameters) {
      for (float& x : p.*to) x = *next++;
    }
  }
  std::vector<float> get(std::span<float> Parameter::*from) const {
    std::vector<float> out;
    for (const Parameter& p : parameters) {
      out.insert(out.end(), (p.*from).begin(), (p.*from).end());
    }
    return out;
  }
  ParameterRegistry parameters;
};

const AdamW::Options kOptions{
    .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1, .grad_clip = 1.0};

// torch 2.13: AdamW(lr 0.05, betas (0.9, 0.95)), decay 0.1 on the matrix alone, clip_grad_norm_ 1.
TEST(AdamW, four_clipped_steps_equal_pytorchs) {
  Runtime run({.threads = 1});
  Model model;
  AdamW optimizer(model.parameters, kOptions);
  struct Step {
    std::vector<float> grads;
    double norm;
    std::vector<double> after;
  };
  const std::vector<Step> steps{
      {{3, -1, 0.5f, 0.25f, 2, -2},
       4.279310703277588,
       {0.44749999, -0.198750004, 1.44250011, 1.94000006, 0.0500000007, -0.25}},
      {{0.01f, 0.02f, -0.03f, 0.04f, 0.05f, -0.06f},
       0.09539391845464706,
       {0.410795987, -0.167168394, 1.41183579, 1.88141048, 0.0122607313, -0.211559385}},
      {{-1, 2, 3, -4, 0, 1},
       5.567764759063721,
       {0.39079836, -0.180185676, 1.37047327, 1.89942861, -0.0172890294, -0.195222691}},
      {{1e-4f, 2e-4f, 0, 0, 1e-5f, 0},
       0.00022383028408512473,
       {0.373950183, -0.190793961, 1.33515525, 1.91268945, -0.0418106951, -0.181666151}}};
  for (const Step& step : steps) {
    model.set_grads(step.grads);
    const AdamW::Result result = optimizer.step(run, 0.05);
    EXPECT_TRUE(result.applied);
    EXPECT_NEAR(result.grad_norm, step.norm, 1e-6 * step.norm);
    for (std::size_t i = 0; i < step.after.size(); ++i) {
      EXPECT_NEAR(model.values()[i], step.after[i], 3e-7) << i;
      EXPECT_EQ(model.grads()[i], 0.0f);
    }
  }
  EXPECT_EQ(optimizer.steps(), 4);
}

TEST(AdamW, decay_comes_before_the_update) {
  Runtime run({.threads = 1});
  ParameterRegistry parameters;
  parameters.add("p", {1, 1});
  parameters.allocate(true);
  parameters.values()[0] = 1.0f;
  AdamW optimizer(parameters, {.beta1 = 0.9, .beta2 = 0.95, .weight_decay = 0.1});
  const double expected[] = {0.890000002, 0.8542630578558273, 0.8110522654784148};
  const float grads[] = {0.5f, -0.25f, 0.125f};
  for (int i = 0; i < 3; ++i) {
    parameters.grads()[0] = grads[i];
    optimizer.step(run, 0.1);
    EXPECT_NEAR(parameters.values()[0], expected[i], 1e-6);
  }
}

TEST(AdamW, without_a_gradient_only_matrices_decay) {
  Runtime run({.threads = 1});
  Model model;
  const std::vector<float> before = model.values();
  AdamW optimizer(model.parameters, kOptions);
  optimizer.step(run, 0.05);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(model.values()[i], before[i] * (1 - 0.05 * 0.1), 1e-7);
  }
  EXPECT_EQ(model.values()[4], before[4]);
  EXPECT_EQ(model.values()[5], before[5]);
}

TEST(AdamW, clip_factor_is_torchs) {
  EXPECT_NEAR(clip_factor(10.0, 1.0), 0.09999999000000101, 1e-15);
  EXPECT_EQ(clip_factor(0.5, 1.0), 1.0);
  EXPECT_EQ(clip_factor(1e30, 0.0), 1.0);  // 0: no clipping
}

TEST(AdamW, a_gradient_that_is_not_finite_changes_nothing_and_is_cleared) {
  Runtime run({.threads = 1});
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    Model model;
    AdamW optimizer(model.parameters, kOptions);
    model.set_grads({1, 2, 3, 4, 5, 6});
    optimizer.step(run, 0.05);
    const auto values = [&] {
      std::vector<float> all = model.values();
      for (std::size_t p = 0; p < 2; ++p) {
        all.insert(all.end(), optimizer.first_moment(p).begin(), optimizer.first_moment(p).end());
        all.insert(all.end(), optimizer.second_moment(p).begin(), optimizer.second_moment(p).end());
      }
      return all;
    };
    const std::vector<float> before = values();
    model.set_grads({0, 1, bad, 0, 0, 2});
    const AdamW::Result result = optimizer.step(run, 0.05);
    EXPECT_FALSE(result.applied);
    EXPECT_FALSE(std::isfinite(result.grad_norm));
    EXPECT_EQ(values(), before);
    EXPECT_EQ(optimizer.steps(), 1);
    for (const float g : model.grads()) EXPECT_EQ(g, 0.0f);
  }
}

TEST(AdamW, a_gradient_whose_square_no_float_holds_is_skipped_unless_clipped) {
  Runtime run({.threads = 1});
  AdamW::Options options = kOptions;
  options.grad_clip = 0;
  Model model;
  model.set_grads({1e25f, 0, 0, 0, 0, 0});
  EXPECT_FALSE(AdamW(model.parameters, options).step(run, 0.05).applied);
  model.set_grads({1e25f, 0, 0, 0, 0, 0});
  EXPECT_TRUE(AdamW(model.parameters, kOptions).step(run, 0.05).applied);
  EXPECT_TRUE(std::isfinite(model.values()[0]));
}

TEST(AdamW, a_model_without_gradients_is_refused) {
  Model model(false);
  EXPECT_THROW(AdamW(model.parameters, kOptions), Error);
}

}  // namespace
}  // namespace prenorm
