#include "prenorm/train/stability.h"

#include <algorithm>
#include <cmath>

#include "prenorm/base/philox.h"
#include "prenorm/base/stopwatch.h"
#include "prenorm/train/trainer.h"

namespace prenorm {

double StabilityRun::final_loss() const {
  if (losses.empty()) return 0.0;
  const std::size_t count = std::max<std::size_t>(1, losses.size() / 10);
  double sum = 0.0;
  for (std::size_t i = losses.size() - count; i < losses.size(); ++i) sum += losses[i];
  return sum / static_cast<double>(count);
}

double StabilityRun::highest_loss() const {
  return losses.empty() ? 0.0 : *std::ranges::max_element(losses);
}

std::vector<StabilityRun> train_side_by_side(
    const Runtime& run, const StabilityOptions& options, std::span<const TokenId> tokens,
    const std::function<bool(const StabilityProgress&)>& on_step) {
  std::vector<StabilityRun> all;
  StabilityProgress progress;
  progress.runs = static_cast<Index>(2 * options.depths.size());
  progress.steps = options.recipe.max_iters;
  for (const Index layers : options.depths) {
    for (const NormPlacement norm : {NormPlacement::kPre, NormPlacement::kPost}) {
      GptConfig config = options.model;
      config.n_layer = layers;
      config.norm = norm;
      Gpt model(config, Gpt::Mode::kTraining);
      model.initialize(options.recipe.seed, options.recipe.init);
      if (!options.scale_residuals) unscale_residual_projections(model.parameters(), config);
      Trainer trainer(run, model, {tokens, {}}, options.recipe);
      StabilityRun& result = all.emplace_back();
      result.norm = norm;
      result.layers = layers;
      const Clock::time_point start = Clock::now();
      bool go_on = true;
      for (progress.step = 1; go_on && progress.step <= progress.steps; ++progress.step) {
        const StepResult step = trainer.step();
        result.losses.push_back(step.loss);
        result.grad_norms.push_back(step.grad_norm);
        result.skipped_steps += step.skipped;
        result.seconds = seconds_since(start);
        progress.loss = step.loss;
        go_on = !on_step || on_step(progress);
      }
      if (!go_on) return all;
      ++progress.run;
    }
  }
  return all;
}

double unigram_entropy(std::span<const TokenId> tokens, Index vocab_size) {
  std::vector<double> counts(static_cast<std::size_t>(vocab_size), 0.0);
  for (const TokenId token : tokens) counts[static_cast<std::size_t>(token)] += 1.0;
  double sum = 0.0;
  for (const double count : counts) {
    const double p = count / static_cast<double>(tokens.size());
    if (p > 0.0) sum -= p * std::log(p);
  }
  return sum;
}

std::vector<TokenId> four_followers_text(Index tokens, Index vocab_size, std::uint64_t seed) {
  const PhiloxKey rule = RandomStream{.seed = seed}.key();
  const PhiloxKey draw = RandomStream{.seed = seed, .step = 1}.key();
  std::vector<TokenId> text(static_cast<std::size_t>(tokens));
  std::uint64_t before = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::uint64_t which = random_word(draw, i) % 4;
    text[i] = static_cast<TokenId>(random_word(rule, 4 * before + which) %
                                   static_cast<std::uint32_t>(vocab_size));
    before = static_cast<std::uint64_t>(text[i]);
  }
  return text;
}

}  // namespace prenorm
