#include "prenorm/model/gpt_stages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "prenorm/model/gpt.h"
#include "tests/config_of.h"

namespace prenorm {
namespace {

std::vector<TokenId> tokens(Index count, TokenId first) {
  std::vector<TokenId> out;
  for (Index i = 0; i < count; ++i) out.push_back(static_cast<TokenId>((first + i * i) % 11));
  return out;
}

class GptStagesTest : public ::testing::TestWithParam<bool> {
 protected:
  GptStagesTest() : model_(config()), work_(model_.make_workspace(16, 16)) { model_.initialize(7); }
  static GptConfig config() {
    GptConfig config = config_of(3, 2, 16, 16, 11);
    config.tie_word_embeddings = GetParam();
    return config;
  }
  LossSum pass(GptStages* stages) {
    const auto in = tokens(256, 1), out = tokens(256, 2);
    return model_.forward_backward(
        run_, work_, {TokenMatrix(in.data(), {16, 16}), TokenMatrix(out.data(), {16, 16})}, 1.0, {},
        nullptr, stages);
  }
  bool all_zero(const std::vector<std::span<float>>& parts) const {
    return std::ranges::all_of(parts, [](std::span<float> part) {
      return std::ranges::all_of(part, [](float g) { return g == 0.0f; });
    });
  }

  Runtime run_{{.threads = 2}};
  Gpt model_;
  Gpt::Workspace work_;
};

TEST_P(GptStagesTest, a_stage_adds_to_its_own_gradients_and_to_no_others) {
  std::vector<Index> order, expected;
  GptStages stages;
  const auto count = model_.stages();
  stages.before = [&](Index stage) {
    order.push_back(stage);
    for (Index s = 0; s < count; ++s) {
      EXPECT_EQ(all_zero(model_.stage_gradients(work_, s)), s >= stage) << s << " in " << stage;
    }
  };
  stages.after = [&](Index stage) {
    order.push_back(100 + stage);
    for (Index s = 0; s < count; ++s) {
      EXPECT_EQ(all_zero(model_.stage_gradients(work_, s)), s > stage) << s << " in " << stage;
    }
  };
  pass(&stages);
  EXPECT_EQ(count, 8);  // the head, three blocks in two halves, the embeddings
  for (Index s = 0; s < count; ++s) expected.insert(expected.end(), {s, 100 + s});
  EXPECT_EQ(order, expected);
}

TEST_P(GptStagesTest, stages_cover_every_gradient_once) {
  std::vector<std::span<float>> all;
  for (Index s = 0; s < model_.stages(); ++s) {
    for (const auto part : model_.stage_gradients(work_, s)) all.push_back(part);
  }
  float number = 0.0f;
  for (const auto part : all) {
    for (float& g : part) g = ++number;  // one that is there twice is overwritten
  }
  float least = number;
  for (const auto part : all) {
    for (const float g : part) least = std::min(least, g);
  }
  EXPECT_EQ(least, 1.0f);
  for (const Parameter& p : model_.parameters()) {
    for (const float g : p.grad) ASSERT_GT(g, 0.0f) << p.name;
  }
  model_.clear_gradients(run_, work_);
  EXPECT_TRUE(all_zero(all));
}

TEST_P(GptStagesTest, stages_change_no_bit_and_add_to_the_loss_before) {
  const LossSum plain = pass(nullptr);
  model_.finish_gradients(run_, work_);
  const std::vector<float> expected(model_.parameters().grads().begin(),
                                    model_.parameters().grads().end());
  model_.clear_gradients(run_, work_);
  GptStages stages;
  stages.before = [&](Index) { stages.loss_before = {.loss = 2.0, .count = 5}; };
  stages.after = [&](Index) { EXPECT_EQ(stages.loss.count, 5 + 256); };
  const LossSum summed = pass(&stages);
  model_.finish_gradients(run_, work_);
  EXPECT_EQ(summed.count, 5 + plain.count);
  EXPECT_DOUBLE_EQ(summed.loss, 2.0 + plain.loss);
  EXPECT_TRUE(std::ranges::equal(model_.parameters().grads(), expected));
}

INSTANTIATE_TEST_SUITE_P(heads, GptStagesTest, ::testing::Bool());

}  // namespace
}  // namespace prenorm
