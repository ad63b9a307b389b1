// The initialisation that a GPT-2 written with torch.nn in nanoGPT's order has after
// torch.manual_seed(seed): the same parameters from the same seed, so that a run here and one there
// can be compared step by step.
#pragma once
#include <cstdint>

#include "prenorm/model/gpt_config.h"
#include "prenorm/tensor/parameter.h"

namespace prenorm {

// Overwrites the values of all parameters with those that PyTorch 2.13 makes on a CPU:
//
//   - nn.Embedding and nn.Linear draw their own default values while the model is built: wte, wpe,
//     then in each block c_attn, c_proj, c_fc, c_proj, each weight before its bias, and the head;
//   - wte takes over the head's weight, where they are tied;
//   - module by module in the same order, each weight of the two kinds becomes
//     normal(0, initializer_range) and each bias 0 (a tied weight twice, and the head's draw
//     counts);
//   - each c_proj.weight becomes normal(0, initializer_range / sqrt(2 · layers)).
//
// Matrices of linear layers are drawn as PyTorch's [out, in] and stored as ours [in, out]. PyTorch
// takes the low 32 bits of a seed. See base/torch_random.h for how far the bits agree.
void initialize_torch(ParameterRegistry& parameters, const GptConfig& config, std::uint64_t seed);

}  // namespace prenorm
