#include "prenorm/generate/benchmark.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "prenorm/base/error.h"
#include "prenorm/base/stopwatch.h"
#include "prenorm/model/gpt.h"

namespace prenorm {
namespace {

// Only a sequence's last token goes through the head.
double flops_of_prompts(const GptConfig& config, const GenerationLoad& load) {
  const auto head = static_cast<double>(config.vocab_size * config.n_embd);
  const auto without = static_cast<double>(load.prompt_tokens - 1);
  return static_cast<double>(load.sequences) *
         (config.forward_flops(load.prompt_tokens) - 2.0 * head * without);
}

// The likeliest token of each row.
void choose(ConstMatrix logits, std::vector<TokenId>& tokens) {
  for (Index b = 0; b < logits.dim(0); ++b) {
    const float* row = logits[b].data();
    tokens[static_cast<std::size_t>(b)] =
        static_cast<TokenId>(std::max_element(row, row + logits.dim(1)) - row);
  }
}

}  // namespace

GenerationTimes time_generation(const Runtime& run, const GptConfig& config,
                                const GenerationLoad& load, double seconds) {
  if (load.prompt_tokens + load.tokens > config.block_size) {
    throw ConfigError(
        fmt::format("block-size: expected room for {} prompt and {} new tokens, found {}",
                    load.prompt_tokens, load.tokens, config.block_size));
  }
  Gpt model(config, Gpt::Mode::kInference);
  model.initialize(1);
  model.pack(run, load.format);
  Gpt::Cache cache = model.make_cache(load.sequences);
  const Index prompts = load.sequences * load.prompt_tokens;
  std::vector<TokenId> prompt, next(static_cast<std::size_t>(load.sequences));
  for (Index i = 0; i < prompts; ++i) {
    prompt.push_back(static_cast<TokenId>(i * 7919 % config.vocab_size));
  }
  const Buffer memory(static_cast<std::size_t>(load.sequences * config.vocab_size) * sizeof(float));
  const Matrix logits(memory.floats().data(), {load.sequences, config.vocab_size});

  GenerationTimes times;
  times.prompt_seconds = times.decode_seconds = std::numeric_limits<double>::infinity();
  times.prompt_flops = flops_of_prompts(config, load);
  const bool wide = load.format == kernels::WeightFormat::kFloat32;
  times.weight_bytes = static_cast<std::size_t>(config.matrix_elements()) * (wide ? 4 : 2);
  std::vector<double> steps;
  int passes = 0;
  for (const auto begin = Clock::now(); seconds_since(begin) < seconds || passes < 2; ++passes) {
    cache.clear();
    auto start = Clock::now();
    model.decode(run, cache, TokenMatrix(prompt.data(), {load.sequences, load.prompt_tokens}),
                 logits);
    times.prompt_seconds = std::min(times.prompt_seconds, seconds_since(start));
    const auto decoding = Clock::now();
    for (Index t = 0; t < load.tokens; ++t) {
      start = Clock::now();
      choose(logits, next);
      model.decode(run, cache, TokenMatrix(next.data(), {load.sequences, 1}), logits);
      steps.push_back(seconds_since(start));
    }
    times.decode_seconds = std::min(times.decode_seconds, seconds_since(decoding));
  }
  const auto middle = steps.begin() + static_cast<std::ptrdiff_t>(steps.size() / 2);
  std::nth_element(steps.begin(), middle, steps.end());
  times.step_seconds = *middle;
  return times;
}

}  // namespace prenorm
