// The classic mistakes of a Transformer block, as options of the one implementation. Every default
// is the correct block; each layer's options hold its part. mistake_table.h names them all.
#pragma once
#include <string>

#include "prenorm/base/error.h"
#include "prenorm/base/index.h"

namespace prenorm::reference {

enum class EpsilonPlace {
  kInsideRoot,   // (x − μ) / √(σ² + ε)
  kOutsideRoot,  // (x − μ) / (√σ² + ε)
  kAddedAfter,   // (x − μ) / √σ² + ε
};

struct LayerNormMistakes {
  EpsilonPlace eps_place = EpsilonPlace::kInsideRoot;
  bool ddof = false;       // variance divided by C − 1
  bool over_time = false;  // mean and variance over T, for each channel
  bool no_weight = false;  // γ left out
  bool no_bias = false;    // β left out
  bool rms = false;        // x / √(mean(x²) + ε): the mean is not subtracted
  friend bool operator==(const LayerNormMistakes&, const LayerNormMistakes&) = default;
};

struct LinearMistakes {
  bool transposed = false;  // x Wᵀ for a square W
  bool no_bias = false;
  friend bool operator==(const LinearMistakes&, const LinearMistakes&) = default;
};

enum class MaskMistake {
  kNone,
  kOff,         // every token sees every token
  kSetToValue,  // blocked scores set to mask_value (0, −1e4) in place of leaving them out
  kShifted,     // mask_shift future tokens are visible
  kInverted,    // keys before the query are blocked: it sees itself and the future
};

enum class ScaleMistake {
  kNone,
  kUnscaled,  // q·k
  kByWidth,   // q·k / √C
};

// How the packed [q | k | v] columns are cut into heads.
enum class HeadSplit {
  kSlices,       // head h is columns [h D, (h + 1) D) of each of q, k, v
  kInterleaved,  // packed as [H, 3, D]
  kHeadAxes,     // q, k, v viewed as [B, T, D, H]
  kNoTranspose,  // q, k, v viewed as [B, H, T, D], rows and heads not exchanged
};

struct AttentionMistakes {
  MaskMistake mask = MaskMistake::kNone;
  double mask_value = 0.0;
  Index mask_shift = 1;
  ScaleMistake scale = ScaleMistake::kNone;
  std::string qkv_order = "qkv";  // what the first, second and last third of the columns are
  HeadSplit split = HeadSplit::kSlices;
  bool no_merge_transpose = false;    // the heads' [B, H, T, D] read as [B, T, C]
  bool softmax_over_queries = false;  // each key's probabilities add up to one
  friend bool operator==(const AttentionMistakes&, const AttentionMistakes&) = default;
};

enum class ResidualMistake {
  kNone,
  kFromNorm,  // y = LN(x), x = y + f(y)
  kMissing,   // x = f(LN(x))
};

struct BlockMistakes {
  ResidualMistake residual = ResidualMistake::kNone;
  bool swapped_norm_weights = false;  // γ, β of ln_1 used in ln_2 and the reverse
  friend bool operator==(const BlockMistakes&, const BlockMistakes&) = default;
};

struct GptMistakes {
  Index final_norm_calls = 1;  // 0: left out, 2: applied twice
  Index position_offset = 0;   // wpe[t + n]
  friend bool operator==(const GptMistakes&, const GptMistakes&) = default;
};

// The backward passes are those of the correct block. Throws ConfigError if a mistake is set.
template <typename Mistakes>
void require_no_mistake(const char* layer, const Mistakes& mistakes) {
  if (!(mistakes == Mistakes{})) {
    throw ConfigError(std::string(layer) + " backward: expected no mistake, found one set");
  }
}

}  // namespace prenorm::reference
