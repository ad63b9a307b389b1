// Multi-head attention with its two projections, Hugging Face's names:
//
//   MHA(x) = attention(x W_qkv + b_qkv) W_o + b_o       c_attn [C, 3 C], c_proj [C, C]
//
// The derivation of the backward pass is docs/derivations/attention.md.
#pragma once
#include "prenorm/reference/attention.h"
#include "prenorm/reference/linear.h"
#include "prenorm/reference/stages.h"

namespace prenorm::reference {

template <typename S>
struct AttentionParameters {
  LinearParameters<S> c_attn = {}, c_proj = {};
};

struct MultiheadAttentionOptions {
  LinearOptions c_attn = {}, c_proj = {};
  AttentionOptions core = {};
};

// x: [B, T, C] or [T, C]; returns the same shape. Stages: c_attn, c_proj.
template <typename S>
Tensor<S> multihead_attention(const Tensor<S>& x, const AttentionParameters<S>& p,
                              const MultiheadAttentionOptions& options,
                              const AttentionMask& mask = {}, const Recorder<S>& record = {}) {
  const Tensor<S> qkv = record("c_attn", linear(x, p.c_attn, options.c_attn));
  const Tensor<S> o = attention(qkv, options.core, mask);
  return record("c_proj", linear(o, p.c_proj, options.c_proj));
}

template <typename S>
Gradients<S, AttentionParameters<S>> multihead_attention_backward(
    const Tensor<S>& dy, const Tensor<S>& x, const AttentionParameters<S>& p,
    const MultiheadAttentionOptions& options, const AttentionMask& mask = {}) {
  const Tensor<S> qkv = linear(x, p.c_attn, options.c_attn);
  const Tensor<S> o = attention(qkv, options.core, mask);

  auto [d_o, dc_proj] = linear_backward(dy, o, p.c_proj, options.c_proj);
  const Tensor<S> dqkv = attention_backward(d_o, qkv, options.core, mask);
  auto [dx, dc_attn] = linear_backward(dqkv, x, p.c_attn, options.c_attn);
  return {std::move(dx), {std::move(dc_attn), std::move(dc_proj)}};
}

}  // namespace prenorm::reference
