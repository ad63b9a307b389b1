// How likely a model finds tokens that are there already: to compare answers with each other
// (multiple choice), to find surprising places.
//
//   const std::vector<float> logprobs = score_tokens(run, model, ids);  // of ids[1], ids[2], …
#pragma once
#include <span>
#include <vector>

#include "prenorm/kernels/runtime.h"
#include "prenorm/model/gpt.h"

namespace prenorm {

// log p(tokens[i] | the tokens before it) for i = 1 and on; empty for one token. Each token past
// the model's context is predicted from the block_size tokens before it, as in generation: one
// pass a token there. The bits are those of Generation::logprobs for the same tokens. Throws
// DataError (no tokens), ShapeError (a token outside the vocabulary), NumericalError.
std::vector<float> score_tokens(const Runtime& run, const Gpt& model,
                                std::span<const TokenId> tokens);

}  // namespace prenorm
