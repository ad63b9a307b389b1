// The initialisation of torch.nn.MultiheadAttention and TransformerEncoderLayer for those who use a
// layer alone (a Gpt has its own): uniform in ±√(6 / (fan_in + fan_out)) (Glorot, Bengio 2010).
//
//   xavier_uniform(*registry.find("block.mlp.c_fc.weight"), seed, 0);
#pragma once
#include <cstdint>

#include "prenorm/tensor/parameter.h"

namespace prenorm {

// PyTorch counts a packed projection [C, 3C] as one matrix, whose bound is √2 smaller than that of
// three separate ones.
double xavier_uniform_bound(Index fan_in, Index fan_out);

// Overwrites a matrix. `number` tells apart the parameters of one seed. Throws ShapeError for a
// vector.
void xavier_uniform(Parameter& weight, std::uint64_t seed, std::uint32_t number);

}  // namespace prenorm
