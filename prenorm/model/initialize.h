// GPT-2's initialisation: normal(0, initializer_range) for matrices and embeddings, residual
// projections (c_proj) scaled by 1 / sqrt(2 · layers), biases 0, layer norms 1 and 0 (Radford et
// al. 2019). A function of the seed and the place of each element alone.
#pragma once
#include <cstdint>

#include "prenorm/model/gpt_config.h"
#include "prenorm/tensor/parameter.h"

namespace prenorm {

// Overwrites the values of all parameters.
void initialize(ParameterRegistry& parameters, const GptConfig& config, std::uint64_t seed);

}  // namespace prenorm
