// Which windows of the text a training step sees: a function of (seed, step, sequence), with no
// state that could be lost, and independent of how the step is cut into micro-batches.
#pragma once
#include <cstdint>
#include <span>

#include "prenorm/text/corpus.h"

namespace prenorm {

// The start of sequence `sequence` of step `step`: uniform in [0, windows), without modulo bias;
// windows is token_window_count(). Requires: windows > 0.
Index window_start(std::uint64_t seed, Index step, Index sequence, Index windows);

// Sequences first_sequence … first_sequence + B − 1 of a step. inputs, targets: [B, T],
// overwritten; B = inputs.size() / block_size. Requires tokens.size() > block_size.
void fill_batch(std::span<const TokenId> tokens, std::uint64_t seed, Index step,
                Index first_sequence, Index block_size, std::span<TokenId> inputs,
                std::span<TokenId> targets);

}  // namespace prenorm
