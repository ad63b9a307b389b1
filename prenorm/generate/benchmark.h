// Times generation on random weights and tokens: how fast a prompt is read and how fast tokens
// follow, apart from any text.
#pragma once
#include <cstddef>

#include "prenorm/kernels/matmul.h"
#include "prenorm/model/gpt_config.h"

namespace prenorm {

struct GenerationLoad {
  Index prompt_tokens = 512, tokens = 64;  // of each sequence
  Index sequences = 1;                     // computed together
  kernels::WeightFormat format = kernels::WeightFormat::kFloat32;
};

struct GenerationTimes {
  double prompt_seconds = 0.0;   // the best pass over all prompts
  double decode_seconds = 0.0;   // the best pass over all new tokens but the prompt's own
  double step_seconds = 0.0;     // the median of one token of every sequence
  double prompt_flops = 0.0;     // of a pass over the prompts
  std::size_t weight_bytes = 0;  // read for each step
};

// Passes of prompt and decoding for about `seconds`, and at least two. Throws ConfigError where the
// context is too short.
GenerationTimes time_generation(const Runtime& run, const GptConfig& config,
                                const GenerationLoad& load, double seconds);

}  // namespace prenorm
