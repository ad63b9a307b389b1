#include "prenorm/train/benchmark.h"

#include <algorithm>

#include "prenorm/base/philox.h"
#include "prenorm/base/stopwatch.h"
#include "prenorm/model/gpt.h"
#include "prenorm/train/adamw.h"
#include "prenorm/train/plan.h"

namespace prenorm {
namespace {

constexpr int kWarmUpSteps = 3;
constexpr std::size_t kLeastSteps = 4;

std::vector<TokenId> random_tokens(Index count, Index vocabulary, std::uint64_t seed) {
  const PhiloxKey key = RandomStream{seed, Purpose::kBatchOrder, 0, 0}.key();
  std::vector<TokenId> tokens;
  for (Index i = 0; i < count; ++i) {
    const double u = random_double(key, static_cast<std::uint64_t>(i));
    tokens.push_back(static_cast<TokenId>(u * static_cast<double>(vocabulary)));
  }
  return tokens;
}

}  // namespace

double StepTimes::min() const { return *std::ranges::min_element(seconds); }

double StepTimes::median() const {
  std::vector<double> sorted = seconds;
  std::ranges::sort(sorted);
  const std::size_t middle = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

StepTimes time_training_steps(const Runtime& run, const GptConfig& config, Index batch,
                              double seconds, Products products, Profile* profile) {
  Gpt model(config);
  model.set_products(products);
  model.initialize(1);
  const Index time = config.block_size;
  Gpt::Workspace work = model.make_workspace(batch, time);
  AdamW optimizer(model.parameters(), {.beta2 = 0.95, .weight_decay = 0.1, .grad_clip = 1.0});
  const auto inputs = random_tokens(batch * time, config.vocab_size, 1);
  const auto targets = random_tokens(batch * time, config.vocab_size, 2);
  const TokenBatch tokens{TokenMatrix(inputs.data(), {batch, time}),
                          TokenMatrix(targets.data(), {batch, time})};
  StepTimes times;
  times.flops = training_flops(config, batch, time);
  times.tokens = batch * time;
  const auto step = [&](std::uint32_t number) {
    model.forward_backward(run, work, tokens, 1.0 / static_cast<double>(times.tokens),
                           {.seed = 1, .step = number, .first_sequence = 0});
    model.finish_gradients(run, work);
    optimizer.step(run, 6e-4);
  };
  std::uint32_t number = 0;
  for (int i = 0; i < kWarmUpSteps; ++i) step(number++);
  run.set_profile(profile);
  run.pool().measure_waits(profile != nullptr);
  for (const auto begin = Clock::now();
       seconds_since(begin) < seconds || times.seconds.size() < kLeastSteps;) {
    const auto start = Clock::now();
    step(number++);
    times.seconds.push_back(seconds_since(start));
  }
  run.set_profile(nullptr);
  times.waited = run.pool().waited();
  run.pool().measure_waits(false);
  times.planned_bytes = plan_memory(model, batch, 2 * times.tokens, run.scratch_bytes()).total();
  return times;
}

}  // namespace prenorm
