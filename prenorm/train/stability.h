// Training stability, measured: models that differ in the place of their norms and in their depth
// alone, trained side by side by one recipe on one text.
//
//   const auto runs = train_side_by_side(run, {.model = config, .recipe = options}, tokens);
//   draw(runs[0].losses, runs[1].losses);   // pre-norm and post-norm of the first depth
#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "prenorm/model/gpt_config.h"
#include "prenorm/train/options.h"

namespace prenorm {

struct StabilityOptions {
  GptConfig model;      // depth and norms are replaced
  TrainOptions recipe;  // the same for all
  std::vector<Index> depths = {12, 24};
  bool scale_residuals = false;  // projections begin 1/√(2 · layers) as large, as GPT-2's
};

struct StabilityRun {
  NormPlacement norm = NormPlacement::kPre;
  Index layers = 0;
  std::vector<double> losses;      // of each step
  std::vector<double> grad_norms;  // of each step, before clipping
  Index skipped_steps = 0;         // for numbers that were not finite
  double seconds = 0.0;

  double first_loss() const { return losses.empty() ? 0.0 : losses.front(); }
  // The mean over the last tenth of the steps.
  double final_loss() const;
  double highest_loss() const;
};

struct StabilityProgress {
  Index run = 0, runs = 0;    // counted from 0
  Index step = 0, steps = 0;  // of this run; done
  double loss = 0.0;
};

// Pre- and post-norm of each depth, in this order. Called after each step, `on_step` stops the
// measurement by returning false: what has been measured is returned, a run that has begun too.
// Throws ConfigError and DataError as Trainer does.
std::vector<StabilityRun> train_side_by_side(
    const Runtime& run, const StabilityOptions& options, std::span<const TokenId> tokens,
    const std::function<bool(const StabilityProgress&)>& on_step = {});

// What is left to learn after the tokens' frequencies: −Σ p log p of single tokens, in nats. A
// model whose loss stays there has learned nothing about their order.
double unigram_entropy(std::span<const TokenId> tokens, Index vocab_size);

// A text for those who have none: each token is followed by one of four, drawn evenly; a function
// of the seed. The loss of whoever knows the rule is log 4.
std::vector<TokenId> four_followers_text(Index tokens, Index vocab_size, std::uint64_t seed);

}  // namespace prenorm
