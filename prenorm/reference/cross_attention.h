// Attention of queries to keys and values of other tokens (Vaswani et al. 2017), all heads:
//
//   o_t = Σ_s P_ts v_s       P: softmax of q_t · k_s / √D over the keys s that query t may see
//
// for q [B, T, C], k [B, S, C], v [B, S, E], head h in columns [h D, (h + 1) D) of each. Here the
// causal rule puts the first query at the first key (torch.nn.functional's; in attention.h, where
// keys may come from a cache, the last stands at the last).
#pragma once
#include <limits>
#include <utility>

#include "prenorm/reference/attention.h"

namespace prenorm::reference {

template <typename S>
struct QueryKeyValue {
  Tensor<S> q, k, v;
};

// The causal rule s ≤ t as part of the mask.
inline AttentionMask with_causal_rule(AttentionMask mask, Index queries, Index keys) {
  if (mask.added.absent()) mask.added = Tensor<double>({1, 1, queries, keys});
  for (Index row = 0; row < mask.added.rows(); ++row) {
    for (Index s = row % queries + 1; s < keys; ++s) {
      mask.added(row, s) = -std::numeric_limits<double>::infinity();
    }
  }
  return mask;
}

template <typename S>
class CrossAttention {
 public:
  // Throws ShapeError unless the tensors and the mask fit each other and the heads divide the
  // widths.
  CrossAttention(const QueryKeyValue<S>& in, const AttentionOptions& options,
                 const AttentionMask& mask = {})
      : in_(in), options_(options), mask_(mask) {
    const Index batch = in.q.dim(0), keys = in.k.dim(1);
    check_shape("cross-attention: keys", in.k.shape(), {batch, keys, in.q.columns()});
    check_shape("cross-attention: values", in.v.shape(), {batch, keys, in.v.columns()});
    if (options.heads < 1 || in.q.columns() % options.heads != 0 ||
        in.v.columns() % options.heads != 0) {
      throw ShapeError("cross-attention: expected widths that are multiples of " +
                       std::to_string(options.heads) + " heads, found " + shape_text(in.q.shape()) +
                       " and " + shape_text(in.v.shape()));
    }
    if (options.causal) mask_ = with_causal_rule(std::move(mask_), in.q.dim(1), keys);
    check_mask(mask_, batch, in.q.dim(1), keys, options.heads);
    options_.causal = false;
  }

  // Returns [B, T, E].
  Tensor<S> forward() const {
    Tensor<S> out({in_.q.dim(0), in_.q.dim(1), in_.v.columns()});
    each_head([&](const HeadPlace& q, const HeadPlace& k, const HeadPlace& v, const HeadPlace& o) {
      put_merged(scaled_dot_product_attention(take_merged(in_.q, q), take_merged(in_.k, k),
                                              take_merged(in_.v, v), options_, mask_, q.b, q.h),
                 o, {}, out);
    });
    return out;
  }

  // The gradients of q, k and v, given that of the output.
  QueryKeyValue<S> backward(const Tensor<S>& dout) const {
    check_shape("cross-attention: dout", dout.shape(),
                {in_.q.dim(0), in_.q.dim(1), in_.v.columns()});
    QueryKeyValue<S> d{zeros_like(in_.q), zeros_like(in_.k), zeros_like(in_.v)};
    each_head([&](const HeadPlace& q, const HeadPlace& k, const HeadPlace& v, const HeadPlace& o) {
      const HeadGradients<S> head = scaled_dot_product_attention_backward(
          take_merged(dout, o), take_merged(in_.q, q), take_merged(in_.k, k), take_merged(in_.v, v),
          options_, mask_, q.b, q.h);
      put_merged(head.dq, q, {}, d.q);
      put_merged(head.dk, k, {}, d.k);
      put_merged(head.dv, v, {}, d.v);
    });
    return d;
  }

 private:
  HeadPlace place(const Tensor<S>& x, Index b, Index h) const {
    return {x.dim(0), x.dim(1), options_.heads, x.columns() / options_.heads, b, h};
  }
  // Calls body(q, k, v, o) with the head's place in each of them.
  template <typename Body>
  void each_head(const Body& body) const {
    for (Index b = 0; b < in_.q.dim(0); ++b) {
      for (Index h = 0; h < options_.heads; ++h) {
        const HeadPlace q = place(in_.q, b, h), v = place(in_.v, b, h);
        body(q, place(in_.k, b, h), v, HeadPlace{q.batch, q.time, q.heads, v.head_width, b, h});
      }
    }
  }

  const QueryKeyValue<S>& in_;
  AttentionOptions options_;
  AttentionMask mask_;
};

}  // namespace prenorm::reference
