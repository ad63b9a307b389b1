// The Transformer block, with the norm before each sub-layer (Radford et al. 2019) or after each
// residual sum (Vaswani et al. 2017):
//
//   pre-norm    h = x + MHA(LN1(x)),   y = h + FFN(LN2(h))
//   post-norm   h = LN1(x + MHA(x)),   y = LN2(h + FFN(h))
//
// The derivation of the backward pass is docs/derivations/transformer_block.md.
#pragma once
#include "prenorm/reference/feed_forward.h"
#include "prenorm/reference/layer_norm.h"
#include "prenorm/reference/multihead_attention.h"

namespace prenorm::reference {

enum class NormPlacement { kPre, kPost };

template <typename S>
struct BlockParameters {
  LayerNormParameters<S> ln_1;
  AttentionParameters<S> attn;
  LayerNormParameters<S> ln_2;
  FeedForwardParameters<S> mlp;
};

struct BlockOptions {
  NormPlacement norm = NormPlacement::kPre;
  LayerNormOptions ln_1 = {}, ln_2 = {};
  MultiheadAttentionOptions attn = {};
  FeedForwardOptions mlp = {};
  Numbers numbers = Numbers::kExact;  // of the residual sums
  BlockMistakes mistakes = {};
};

// One half of the block: a sub-layer f with its norm and its residual connection.
template <typename S, typename Norm, typename Sublayer>
Tensor<S> residual_branch(const Tensor<S>& x, const Norm& norm, const Sublayer& f,
                          const BlockOptions& options) {
  const auto sum = [&](const Tensor<S>& residual, const Tensor<S>& branch) {
    if (options.mistakes.residual == ResidualMistake::kMissing) return branch;
    return rounded(add(residual, branch), options.numbers);
  };
  if (options.norm == NormPlacement::kPost) return norm(sum(x, f(x)));
  const Tensor<S> n = norm(x);
  if (options.mistakes.residual == ResidualMistake::kFromNorm) return sum(n, f(n));
  return sum(x, f(n));
}

// x: [B, T, C] or [T, C]; returns the same shape. Throws ShapeError. Stages: ln_1, attn.c_attn,
// attn.c_proj, ln_2, mlp.c_fc, mlp.act, mlp.c_proj.
template <typename S>
Tensor<S> transformer_block(const Tensor<S>& x, const BlockParameters<S>& p,
                            const BlockOptions& options, const AttentionMask& mask = {},
                            const Recorder<S>& record = {}) {
  const bool swapped = options.mistakes.swapped_norm_weights;
  const auto ln_1 = [&](const Tensor<S>& u) {
    return record("ln_1", layer_norm(u, swapped ? p.ln_2 : p.ln_1, options.ln_1));
  };
  const auto ln_2 = [&](const Tensor<S>& u) {
    return record("ln_2", layer_norm(u, swapped ? p.ln_1 : p.ln_2, options.ln_2));
  };
  const auto mha = [&](const Tensor<S>& u) {
    return multihead_attention(u, p.attn, options.attn, mask, record.under("attn."));
  };
  const auto ffn = [&](const Tensor<S>& u) {
    return feed_forward(u, p.mlp, options.mlp, record.under("mlp."));
  };
  const Tensor<S> h = residual_branch(x, ln_1, mha, options);
  return residual_branch(h, ln_2, ffn, options);
}

// Pre-norm, from the output back:
//   dh = dy + LN2ᵀ(FFNᵀ(dy)),   dx = dh + LN1ᵀ(MHAᵀ(dh))
template <typename S>
Gradients<S, BlockParameters<S>> pre_norm_block_backward(const Tensor<S>& dy, const Tensor<S>& x,
                                                         const BlockParameters<S>& p,
                                                         const BlockOptions& options,
                                                         const AttentionMask& mask) {
  const Tensor<S> n_1 = layer_norm(x, p.ln_1, options.ln_1);
  const Tensor<S> h = add(x, multihead_attention(n_1, p.attn, options.attn, mask));
  const Tensor<S> n_2 = layer_norm(h, p.ln_2, options.ln_2);

  auto [dn_2, dmlp] = feed_forward_backward(dy, n_2, p.mlp, options.mlp);
  auto [dh_branch, dln_2] = layer_norm_backward(dn_2, h, p.ln_2, options.ln_2);
  const Tensor<S> dh = add(dy, dh_branch);
  auto [dn_1, dattn] = multihead_attention_backward(dh, n_1, p.attn, options.attn, mask);
  auto [dx_branch, dln_1] = layer_norm_backward(dn_1, x, p.ln_1, options.ln_1);
  const Tensor<S> dx = add(dh, dx_branch);
  return {dx, {std::move(dln_1), std::move(dattn), std::move(dln_2), std::move(dmlp)}};
}

// Post-norm, from the output back, with u = x + MHA(x), h = LN1(u) and w = h + FFN(h):
//   dw = LN2ᵀ(dy),   dh = dw + FFNᵀ(dw),   du = LN1ᵀ(dh),   dx = du + MHAᵀ(du)
template <typename S>
Gradients<S, BlockParameters<S>> post_norm_block_backward(const Tensor<S>& dy, const Tensor<S>& x,
                                                          const BlockParameters<S>& p,
                                                          const BlockOptions& options,
                                                          const AttentionMask& mask) {
  const Tensor<S> u = add(x, multihead_attention(x, p.attn, options.attn, mask));
  const Tensor<S> h = layer_norm(u, p.ln_1, options.ln_1);
  const Tensor<S> w = add(h, feed_forward(h, p.mlp, options.mlp));

  auto [dw, dln_2] = layer_norm_backward(dy, w, p.ln_2, options.ln_2);
  auto [dh_branch, dmlp] = feed_forward_backward(dw, h, p.mlp, options.mlp);
  const Tensor<S> dh = add(dw, dh_branch);
  auto [du, dln_1] = layer_norm_backward(dh, u, p.ln_1, options.ln_1);
  auto [dx_branch, dattn] = multihead_attention_backward(du, x, p.attn, options.attn, mask);
  const Tensor<S> dx = add(du, dx_branch);
  return {dx, {std::move(dln_1), std::move(dattn), std::move(dln_2), std::move(dmlp)}};
}

// The gradients of the correct block. Throws ShapeError, and ConfigError if a mistake is set.
template <typename S>
Gradients<S, BlockParameters<S>> transformer_block_backward(const Tensor<S>& dy, const Tensor<S>& x,
                                                            const BlockParameters<S>& p,
                                                            const BlockOptions& options,
                                                            const AttentionMask& mask = {}) {
  require_no_mistake("transformer_block", options.mistakes);
  check_shape("transformer_block: dy", dy.shape(), x.shape());
  return options.norm == NormPlacement::kPre ? pre_norm_block_backward(dy, x, p, options, mask)
                                             : post_norm_block_backward(dy, x, p, options, mask);
}

}  // namespace prenorm::reference
