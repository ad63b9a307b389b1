// The textbook with dropout: its own functions with the masks of kernels/dropout.h, one number at a
// time from the stream, so that a pass with dropout can be proved for its fixed masks.
#pragma once
#include "prenorm/kernels/attention.h"
#include "prenorm/kernels/dropout.h"
#include "prenorm/layers/transformer_block.h"
#include "prenorm/reference/transformer_block.h"

namespace prenorm {

// x with the element of each number dropped, or kept and scaled.
template <typename S>
reference::Tensor<S> dropped(reference::Tensor<S> x, const kernels::Dropout& drop) {
  if (!drop) return x;
  const PhiloxKey key = drop.stream.key();
  for (Index i = 0; i < x.size(); ++i) {
    const bool kept =
        random_word(key, static_cast<std::uint64_t>(drop.first_element + i)) >= drop.threshold();
    x[i] = kept ? x[i] * S(static_cast<double>(drop.scale())) : S(0);
  }
  return x;
}

// Causal attention on qkv [B, T, 3 C] with dropout of the probabilities.
template <typename S>
reference::Tensor<S> attention_with_dropout(const reference::Tensor<S>& qkv, Index heads,
                                            const kernels::AttentionDropout& dropout,
                                            std::optional<double> scale = {}) {
  using namespace reference;
  AttentionOptions options;
  options.scale = scale;
  HeadPlace head = check_heads(qkv, heads, AttentionMistakes());
  Tensor<S> out(with_columns(qkv, head.width()));
  for (head.b = 0; head.b < head.batch; ++head.b) {
    for (head.h = 0; head.h < heads; ++head.h) {
      kernels::Dropout drop = dropout.drop;
      const Index sequence = dropout.first_sequence + head.b;
      drop.first_element += (sequence * heads + head.h) * head.time * head.time;
      const Tensor<S> q = take_head(qkv, head, 'q'), k = take_head(qkv, head, 'k');
      const Tensor<S> p = dropped(attention_probabilities(q, k, options, {}, head.b), drop);
      const Tensor<S> v = take_head(qkv, head, 'v');
      put_merged(linear(p, {v, {}}), head, {}, out);
    }
  }
  return out;
}

template <typename S>
reference::Tensor<S> multihead_attention_with_dropout(const reference::Tensor<S>& x,
                                                      const reference::AttentionParameters<S>& p,
                                                      Index heads,
                                                      const kernels::AttentionDropout& dropout,
                                                      std::optional<double> scale = {}) {
  const auto qkv = reference::linear(x, p.c_attn);
  return reference::linear(attention_with_dropout(qkv, heads, dropout, scale), p.c_proj);
}

// transformer_block() with the masks that TransformerBlock uses at this position: `rates` holds the
// dropout rates, the number of heads and the layer.
template <typename S>
reference::Tensor<S> transformer_block_with_dropout(const reference::Tensor<S>& x,
                                                    const reference::BlockParameters<S>& p,
                                                    const reference::BlockOptions& options,
                                                    const TransformerBlock::Options& rates,
                                                    const TransformerBlock::DropoutPosition& at) {
  const Index time = x.dim(1), first = at.first_sequence * time * x.columns();
  const auto drop_of = [&](Purpose purpose, double rate, Index first_element) {
    const auto layer = static_cast<std::uint32_t>(rates.layer);
    return kernels::Dropout{{at.seed, purpose, at.step, layer}, rate, first_element};
  };
  const kernels::AttentionDropout attention{
      drop_of(Purpose::kAttentionDropout, rates.attn_pdrop, 0), at.first_sequence};
  const auto mha = [&](const auto& u) {
    return dropped(multihead_attention_with_dropout(u, p.attn, rates.heads, attention,
                                                    options.attn.core.scale),
                   drop_of(Purpose::kAttentionResidualDropout, rates.resid_pdrop, first));
  };
  const auto ffn = [&](const auto& u) {
    return dropped(reference::feed_forward(u, p.mlp, options.mlp),
                   drop_of(Purpose::kFeedForwardResidualDropout, rates.resid_pdrop, first));
  };
  const auto ln_1 = [&](const auto& u) { return reference::layer_norm(u, p.ln_1, options.ln_1); };
  const auto ln_2 = [&](const auto& u) { return reference::layer_norm(u, p.ln_2, options.ln_2); };
  const auto h = reference::residual_branch(x, ln_1, mha, options);
  return reference::residual_branch(h, ln_2, ffn, options);
}

}  // namespace prenorm
