// GPT-2's initialisation: normal(0, initializer_range) for matrices and embeddings, residual
// projections (c_proj) scaled by 1 / sqrt(2 · layers), biases 0, layer norms 1 and 0 (Radford et
// al. 2019). A function of the seed and the place of each element alone.
#pragma once
#include <cstdint>
#include <string_view>

#include "prenorm/base/name_table.h"
#include "prenorm/model/gpt_config.h"
#include "prenorm/tensor/parameter.h"

namespace prenorm {

// Whose random numbers a seed stands for: this file's, or those of a model made by PyTorch
// (initialize_torch.h).
enum class Initialization { kPrenorm, kTorch };

// Name and value of each, as flags and files spell them.
inline constexpr NameTable<Initialization, 2> kInitializations{{
    {"prenorm", Initialization::kPrenorm},
    {"torch", Initialization::kTorch},
}};
std::string_view to_string(Initialization initialization);
// Throws ConfigError naming the known ones.
Initialization initialization_from_string(std::string_view name);

// Overwrites the values of all parameters.
void initialize(ParameterRegistry& parameters, const GptConfig& config, std::uint64_t seed);

// Takes the 1 / sqrt(2 · layers) back from the residual projections of a model just initialised: as
// before GPT-2, where each block adds as much to the stream however many there are. For studies.
void unscale_residual_projections(ParameterRegistry& parameters, const GptConfig& config);

}  // namespace prenorm
