// Token and position embedding: x[b, t] = token_weight[tokens[b, t]] + position_weight[first + t].
#pragma once
#include "prenorm/kernels/runtime.h"
#include "prenorm/tensor/view.h"

namespace prenorm::kernels {

// tokens: [B, T], ids in [0, V); token_weight: [V, C]; position_weight: [P, C], first_position + T
// <= P; y: [B·T, C]. Overwrites y.
void embedding_forward(const Runtime& run, TokenMatrix tokens, ConstMatrix token_weight,
                       ConstMatrix position_weight, Index first_position, Matrix y);

// Adds dy's rows to the gradients one after another in ascending order, so that a batch cut
// anywhere gives the same bits; parallel over features. dtoken_weight: [V, C], dposition_weight:
// [P, C].
void embedding_backward(const Runtime& run, TokenMatrix tokens, ConstMatrix dy,
                        Matrix dtoken_weight, Matrix dposition_weight);

}  // namespace prenorm::kernels
