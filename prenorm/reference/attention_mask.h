// Which keys a query sees. Masks are data, so they are tensors; the causal rule and the mistakes
// are options of the attention. All meanings are torch.nn.MultiheadAttention's: true blocks.
#pragma once
#include <limits>

#include "prenorm/reference/mistakes.h"
#include "prenorm/reference/tensor.h"

namespace prenorm::reference {

struct AttentionMask {
  Tensor<unsigned char> blocked = {};  // [T, T]: not 0 blocks key s for query t; or absent
  // Added to the scaled scores, −∞ blocks: [T, T], or [B, H, T, T] with B and H broadcast from 1;
  // or absent.
  Tensor<double> added = {};
  Tensor<unsigned char> key_padding = {};  // [B, T]: not 0 blocks key s of sequence b; or absent
};

// Throws ShapeError unless the masks fit `queries` by `keys` scores of `heads` heads of `batch`
// sequences.
inline void check_mask(const AttentionMask& mask, Index batch, Index queries, Index keys,
                       Index heads = 1) {
  const std::vector<Index> scores{queries, keys};
  if (!mask.blocked.absent()) check_shape("attention: attn_mask", mask.blocked.shape(), scores);
  if (mask.added.rank() == 4) {
    const Index of_batch = mask.added.dim(0) == 1 ? 1 : batch;
    const Index of_heads = mask.added.dim(1) == 1 ? 1 : heads;
    check_shape("attention: attn_mask", mask.added.shape(), {of_batch, of_heads, queries, keys});
  } else if (!mask.added.absent()) {
    check_shape("attention: attn_mask", mask.added.shape(), scores);
  }
  if (!mask.key_padding.absent()) {
    check_shape("attention: key_padding_mask", mask.key_padding.shape(), {batch, keys});
  }
}

// The causal rule: query t, which stands at position t + past, sees key s if s ≤ t + past.
inline bool causally_blocked(Index t, Index s, Index past, const AttentionMistakes& mistakes) {
  switch (mistakes.mask) {
    case MaskMistake::kOff:
      return false;
    case MaskMistake::kShifted:
      return s > t + past + mistakes.mask_shift;
    case MaskMistake::kInverted:
      return s < t + past;
    default:
      return s > t + past;
  }
}

// What the mask adds to the score of query t and key s in head h of sequence b.
// Requires: mask.added is there.
inline double mask_addend(const AttentionMask& mask, Index b, Index h, Index t, Index s) {
  const Tensor<double>& added = mask.added;
  if (added.rank() != 4) return added(t, s);
  const Index of_b = added.dim(0) == 1 ? 0 : b, of_h = added.dim(1) == 1 ? 0 : h;
  return added((of_b * added.dim(1) + of_h) * added.dim(2) + t, s);
}

// Blocked by the masks given as data.
inline bool masked(const AttentionMask& mask, Index b, Index h, Index t, Index s) {
  if (!mask.blocked.absent() && mask.blocked(t, s) != 0) return true;
  if (!mask.key_padding.absent() && mask.key_padding(b, s) != 0) return true;
  return !mask.added.absent() &&
         mask_addend(mask, b, h, t, s) == -std::numeric_limits<double>::infinity();
}

}  // namespace prenorm::reference
