#include "prenorm/train/stability.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "prenorm/base/error.h"
#include "prenorm/train/trainer.h"
#include "tests/tolerances.h"

namespace prenorm {
namespace {

StabilityOptions small() {
  StabilityOptions o;
  o.model.vocab_size = 16;
  o.model.block_size = 8;
  o.model.n_head = 2;
  o.model.n_embd = 8;
  o.model.initializer_range = 0.3;
  o.recipe.batch_size = 2;
  o.recipe.max_iters = 20;
  o.recipe.warmup_iters = 0;
  o.depths = {1, 3};
  return o;
}

TEST(Stability, runs_come_in_order_and_each_is_what_a_trainer_alone_would_do) {
  const Runtime run({.threads = 1});
  const auto tokens = four_followers_text(500, 16, 1);
  const StabilityOptions options = small();
  const auto runs = train_side_by_side(run, options, tokens);
  ASSERT_EQ(runs.size(), 4u);
  EXPECT_EQ(runs[0].layers, 1);
  EXPECT_EQ(runs[3].layers, 3);
  EXPECT_EQ(runs[2].norm, NormPlacement::kPre);
  EXPECT_EQ(runs[3].norm, NormPlacement::kPost);

  GptConfig config = options.model;
  config.n_layer = 3;
  config.norm = NormPlacement::kPost;
  Gpt model(config, Gpt::Mode::kTraining);
  model.initialize(options.recipe.seed);
  unscale_residual_projections(model.parameters(), config);
  Trainer trainer(run, model, {tokens, {}}, options.recipe);
  for (std::size_t i = 0; i < 20; ++i) {
    const StepResult step = trainer.step();
    EXPECT_EQ(runs[3].losses[i], step.loss);
    EXPECT_EQ(runs[3].grad_norms[i], step.grad_norm);
  }
}

TEST(Stability, it_stops_where_it_is_told_to_and_returns_what_was_measured) {
  const Runtime run({.threads = 1});
  const auto tokens = four_followers_text(500, 16, 1);
  Index calls = 0;
  const auto runs = train_side_by_side(run, small(), tokens, [&](const StabilityProgress& p) {
    EXPECT_EQ(p.runs, 4);
    EXPECT_EQ(p.steps, 20);
    EXPECT_EQ(p.run, calls / 20);
    EXPECT_EQ(p.step, calls % 20 + 1);
    return ++calls < 25;
  });
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0].losses.size(), 20u);
  EXPECT_EQ(runs[1].losses.size(), 5u);
}

TEST(Stability, a_text_that_is_too_short_is_a_data_error) {
  const Runtime run({.threads = 1});
  const auto tokens = four_followers_text(8, 16, 1);
  EXPECT_THROW(train_side_by_side(run, small(), tokens), DataError);
}

TEST(Stability, the_final_loss_is_the_mean_of_the_last_tenth) {
  StabilityRun r;
  for (int i = 0; i < 20; ++i) r.losses.push_back(i);
  EXPECT_EQ(r.final_loss(), 18.5);
  EXPECT_EQ(r.first_loss(), 0.0);
  EXPECT_EQ(r.highest_loss(), 19.0);
  r.losses = {3.0};
  EXPECT_EQ(r.final_loss(), 3.0);
  r.losses.clear();
  EXPECT_EQ(r.final_loss(), 0.0);
}

TEST(Stability, the_entropy_of_frequencies_is_that_of_their_formula) {
  const std::vector<TokenId> even{0, 1, 2, 3}, uneven{0, 0, 0, 1}, one{2, 2};
  EXPECT_NEAR(unigram_entropy(even, 9), std::log(4.0), tolerance::kDoubleFormula);
  EXPECT_NEAR(unigram_entropy(uneven, 2), -0.75 * std::log(0.75) - 0.25 * std::log(0.25),
              tolerance::kDoubleFormula);
  EXPECT_EQ(unigram_entropy(one, 3), 0.0);
}

TEST(Stability, in_the_text_of_four_followers_no_token_has_more) {
  const auto text = four_followers_text(20'000, 64, 7);
  std::vector<std::set<TokenId>> followers(64);
  for (std::size_t i = 1; i < text.size(); ++i) {
    followers[static_cast<std::size_t>(text[i - 1])].insert(text[i]);
  }
  std::size_t most = 0;
  for (const auto& set : followers) most = std::max(most, set.size());
  EXPECT_EQ(most, 4u);
  EXPECT_GT(unigram_entropy(text, 64), 3.0);
  EXPECT_EQ(text, four_followers_text(20'000, 64, 7));
  EXPECT_NE(text, four_followers_text(20'000, 64, 8));
}

}  // namespace
}  // namespace prenorm
