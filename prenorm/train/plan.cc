#include "prenorm/train/plan.h"

#include <algorithm>

#include "prenorm/base/stopwatch.h"
#include "prenorm/train/batch_order.h"

namespace prenorm {
namespace {

// What the program and its libraries hold before there is a model.
constexpr std::size_t kProcessBytes = std::size_t{6} << 20;
constexpr double kLongEnough = 0.4;  // seconds of a pass that tells the rate

// FLOPs a second of forward and backward on the run's own tokens: the first tokens warm up, then
// twice as many each time until a pass takes long enough to tell, or is a whole micro-batch.
double measured_rate(const Runtime& run, Gpt& model, const TrainData& data,
                     const TrainOptions& options) {
  const Index time = model.config().block_size, whole = options.batch_size * time;
  Gpt::Workspace work = model.make_workspace(options.batch_size, time);
  std::vector<TokenId> inputs(static_cast<std::size_t>(whole)), targets(inputs.size());
  fill_batch(data.train, options.seed, 0, 0, time, inputs, targets);
  const auto timed = [&](Index batch, Index length) {
    const TokenBatch tokens{TokenMatrix(inputs.data(), {batch, length}),
                            TokenMatrix(targets.data(), {batch, length})};
    const auto begin = Clock::now();
    model.forward_backward(run, work, tokens, 1.0 / static_cast<double>(whole),
                           {.seed = options.seed});
    return seconds_since(begin);
  };
  Index batch = 1, length = std::min<Index>(time, 16);
  timed(batch, length);
  double seconds = timed(batch, length);
  while (batch * length < whole && seconds < kLongEnough) {
    batch = length < time ? 1 : std::min(options.batch_size, 2 * batch);
    length = std::min(time, 2 * length);
    seconds = timed(batch, length);
  }
  if (seconds < kLongEnough) seconds = std::min(seconds, timed(batch, length));
  model.finish_gradients(run, work);
  model.parameters().zero_grad();
  return training_flops(model.config(), batch, length) / seconds;
}

Index evaluation_tokens(const TrainData& data, const TrainOptions& options, Index time) {
  const auto targets = static_cast<Index>(data.validation.size()) - 1;
  if (targets < 1) return 0;
  if (options.eval_iters == 0) return targets;
  return std::min(targets, options.eval_iters * options.batch_size * time);
}

}  // namespace

std::size_t MemoryPlan::total() const {
  return parameters + gradients + moments + workspace + scratch + data + process;
}

double training_flops(const GptConfig& config, Index batch, Index time) {
  return 3.0 * static_cast<double>(batch) * config.forward_flops(time);
}

MemoryPlan plan_memory(const Gpt& model, Index batch_size, Index tokens, std::size_t scratch) {
  const std::size_t floats = model.parameters().values().size_bytes();
  return {.parameters = floats,
          .gradients = floats,
          .moments = 2 * floats,
          .workspace = model.workspace_bytes(batch_size, model.config().block_size),
          .scratch = scratch,
          .data = static_cast<std::size_t>(tokens) * sizeof(TokenId),
          .process = kProcessBytes};
}

std::size_t least_training_memory(const GptConfig& config) {
  constexpr std::size_t kCopies = 4;  // weights, gradients, two moments
  const Index head = config.tie_word_embeddings ? 0 : config.vocab_size * config.n_embd;
  const Index count = config.matrix_elements() + head + config.block_size * config.n_embd;
  return kCopies * sizeof(float) * static_cast<std::size_t>(count);
}

TrainingPlan plan_training(const Runtime& run, Gpt& model, const TrainData& data,
                           const TrainOptions& options) {
  options.validate();
  model.set_products(options.dtype);
  const Index time = model.config().block_size, steps = options.max_iters;
  const double flops = training_flops(model.config(), options.sequences_per_step(), time);
  const double rate = measured_rate(run, model, data, options);
  TrainingPlan plan{.parameters = model.parameters().total_size(),
                    .tokens_per_step = options.sequences_per_step() * time,
                    .flops_per_step = flops,
                    .memory = {},
                    .seconds_per_step = flops / rate};
  const auto tokens = static_cast<Index>(data.train.size() + data.validation.size());
  plan.memory = plan_memory(model, options.batch_size, tokens, run.scratch_bytes());
  const Index evaluations =
      2 + (options.eval_interval > 0 ? (steps - 1) / options.eval_interval : 0);
  // An evaluation is a forward pass: a third of a step's work for each token.
  const double evaluation_steps =
      static_cast<double>(evaluations * evaluation_tokens(data, options, time)) /
      (3.0 * static_cast<double>(plan.tokens_per_step));
  plan.seconds = plan.seconds_per_step * (static_cast<double>(steps) + evaluation_steps);
  return plan;
}

}  // namespace prenorm
