// How packed queries, keys and values [B, T, 3 C] are cut into heads, and the heads' outputs put
// side by side again: GPT-2's order, q, k, v one after another, head h in columns [h D, (h + 1) D)
// of each.
#pragma once
#include <string>

#include "prenorm/reference/mistakes.h"
#include "prenorm/reference/tensor.h"

namespace prenorm::reference {

// A head of one sequence: what is needed to find its numbers.
struct HeadPlace {
  Index batch, time, heads, head_width;  // of the whole tensor
  Index b, h;                            // which one
  Index width() const { return heads * head_width; }
};

// A place in activations [B·T, columns].
struct Place {
  Index row, column;
};

// Where element d of token t stands in q, k or v ([B, T, C] each), seen as a head.
inline Place split_place(const HeadPlace& head, Index t, Index d, HeadSplit split) {
  const Index first_row = head.b * head.time;
  if (split == HeadSplit::kHeadAxes) return {first_row + t, d * head.heads + head.h};
  if (split == HeadSplit::kNoTranspose) {
    const Index flat = (head.h * head.time + t) * head.head_width + d;
    return {first_row + flat / head.width(), flat % head.width()};
  }
  return {first_row + t, head.h * head.head_width + d};
}

// Where element d of token t of `part` ('q', 'k' or 'v') stands in the packed [B, T, 3 C].
inline Place packed_place(const HeadPlace& head, char part, Index t, Index d,
                          const AttentionMistakes& mistakes) {
  const Index third = static_cast<Index>(mistakes.qkv_order.find(part));
  const Place place = split_place(head, t, d, mistakes.split);
  if (mistakes.split == HeadSplit::kInterleaved) {
    return {place.row, (head.h * 3 + third) * head.head_width + d};
  }
  return {place.row, third * head.width() + place.column};
}

// Where element d of token t of the head's output goes in the merged [B, T, C].
inline Place merged_place(const HeadPlace& head, Index t, Index d,
                          const AttentionMistakes& mistakes) {
  const bool kept = mistakes.no_merge_transpose;
  return split_place(head, t, d, kept ? HeadSplit::kNoTranspose : HeadSplit::kSlices);
}

// q, k or v of one head: [T, D].
template <typename S>
Tensor<S> take_head(const Tensor<S>& qkv, const HeadPlace& head, char part,
                    const AttentionMistakes& mistakes = {}) {
  Tensor<S> out({head.time, head.head_width});
  for (Index t = 0; t < head.time; ++t) {
    for (Index d = 0; d < head.head_width; ++d) {
      const Place from = packed_place(head, part, t, d, mistakes);
      out(t, d) = qkv(from.row, from.column);
    }
  }
  return out;
}

// The gradient of q, k or v of one head into its place in the packed gradient. Overwrites it.
template <typename S>
void put_head(const Tensor<S>& d, const HeadPlace& head, char part, Tensor<S>& dqkv) {
  for (Index t = 0; t < head.time; ++t) {
    for (Index c = 0; c < head.head_width; ++c) {
      const Place to = packed_place(head, part, t, c, {});
      dqkv(to.row, to.column) = d(t, c);
    }
  }
}

// One head's columns [T, D] of merged activations [B, T, C].
template <typename S>
Tensor<S> take_merged(const Tensor<S>& merged, const HeadPlace& head) {
  Tensor<S> out({head.time, head.head_width});
  for (Index t = 0; t < head.time; ++t) {
    for (Index d = 0; d < head.head_width; ++d) {
      const Place from = merged_place(head, t, d, {});
      out(t, d) = merged(from.row, from.column);
    }
  }
  return out;
}

// The output [T, D] of one head into its place in [B, T, C]. Overwrites that place.
template <typename S>
void put_merged(const Tensor<S>& o, const HeadPlace& head, const AttentionMistakes& mistakes,
                Tensor<S>& merged) {
  for (Index t = 0; t < head.time; ++t) {
    for (Index d = 0; d < head.head_width; ++d) {
      const Place to = merged_place(head, t, d, mistakes);
      merged(to.row, to.column) = o(t, d);
    }
  }
}

// Throws ShapeError unless qkv is [B, T, 3 C] or [T, 3 C] and the heads divide C, ConfigError for a
// packing that is not a permutation of q, k, v.
template <typename S>
HeadPlace check_heads(const Tensor<S>& qkv, Index heads, const AttentionMistakes& mistakes) {
  const Extents extents = extents_of("attention", qkv);
  if (heads < 1 || qkv.columns() % (3 * heads) != 0) {
    throw ShapeError("attention: qkv: expected columns that are a multiple of 3 · " +
                     std::to_string(heads) + " heads, found " + shape_text(qkv.shape()));
  }
  const std::string& order = mistakes.qkv_order;
  if (order.size() != 3 || order.find_first_not_of("qkv") != std::string::npos ||
      order[0] == order[1] || order[1] == order[2] || order[0] == order[2]) {
    throw ConfigError("attention: qkv_order: expected a permutation of qkv, found " + order);
  }
  return {extents.batch, extents.time, heads, qkv.columns() / (3 * heads), 0, 0};
}

}  // namespace prenorm::reference
