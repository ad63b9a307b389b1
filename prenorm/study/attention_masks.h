// The masks of attention as PyTorch gives them, brought to one form.
//
// torch.nn.MultiheadAttention and everything built on it: `attn_mask` is [T, S], [B·H, T, S] or
// [B, H, T, S] with B and H broadcast from 1; `key_padding_mask` is [B, S], or [S] of one sequence.
// Both are either BOOL, where true blocks the key, or floating-point, added to the scaled scores.
// torch.nn.functional.scaled_dot_product_attention: `attn_mask` broadcasts to [.., T, S]; in BOOL,
// true lets the key be seen. A query that sees no key has the output zero, and finite gradients.
#pragma once
#include <span>

#include "prenorm/formats/tensor_file.h"
#include "prenorm/reference/attention_mask.h"

namespace prenorm {

struct ScoreShape {
  Index batch = 1, heads = 1, queries = 1, keys = 1;
};

// Both masks may be null. In the result `added` is [B, H, T, S], B and H 1 where the mask is the
// same for all, and `key_padding` [B, S]. Throws FormatError naming the tensor.
reference::AttentionMask read_attention_masks(const TensorFile& file, const Tensor* attn_mask,
                                              const Tensor* key_padding_mask,
                                              const ScoreShape& shape);

// The mask of scaled_dot_product_attention, for scores of shape [leading.., queries, keys]; `added`
// is [product of leading, 1, T, S], or [1, 1, T, S] where all are the same.
reference::AttentionMask read_score_mask(const TensorFile& file, const Tensor& attn_mask,
                                         std::span<const Index> leading, Index queries, Index keys);

}  // namespace prenorm
