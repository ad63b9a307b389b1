// Causal multi-head attention on packed queries, keys and values (Vaswani et al. 2017). For each
// sequence and each head, q, k, v of D = C/H features a token:
//
//   score_ts = q_t · k_s / √D                    for the keys s that query t may see: s ≤ t
//   P_ts     = exp(score_ts) / Σ_s exp(score_ts)
//   o_t      = Σ_s P_ts v_s
//
// A key that is not seen contributes nothing at all; a query that sees no key has the output zero.
// The derivation of the backward pass is docs/derivations/attention.md.
#pragma once
#include <cmath>
#include <optional>
#include <utility>

#include "prenorm/reference/attention_mask.h"
#include "prenorm/reference/heads.h"
#include "prenorm/reference/mistakes.h"
#include "prenorm/reference/numbers.h"
#include "prenorm/reference/softmax.h"
#include "prenorm/reference/tensor.h"

namespace prenorm::reference {

struct AttentionOptions {
  Index heads = 1;
  bool causal = true;
  std::optional<double> scale = {};         // of the scores; 1/√D unless given
  Numbers numbers = Numbers::kExact;        // of the probabilities and the result
  Numbers cache_numbers = Numbers::kExact;  // of the keys and values, as kept by a cache
  AttentionMistakes mistakes = {};
};

// --- One head -----------------------------------------------------------------------------------

template <typename S>
S score_scale(const AttentionOptions& options, Index head_width) {
  using std::sqrt;
  if (options.mistakes.scale == ScaleMistake::kUnscaled) return S(1);
  if (options.scale) return S(*options.scale);
  const bool by_width = options.mistakes.scale == ScaleMistake::kByWidth;
  return S(1) / sqrt(S(static_cast<double>(by_width ? head_width * options.heads : head_width)));
}

// P: [T, S] of queries [T, D] and keys [S, D], with the last query at the last key. The mask is for
// head h of sequence b.
template <typename S>
Tensor<S> attention_probabilities(const Tensor<S>& q, const Tensor<S>& k,
                                  const AttentionOptions& options, const AttentionMask& mask,
                                  Index b, Index h = 0) {
  const Index queries = q.rows(), keys = k.rows(), past = keys - queries;
  const AttentionMistakes& mistakes = options.mistakes;
  const S scale = score_scale<S>(options, q.columns());
  Tensor<S> score({queries, keys}), p({queries, keys});
  Tensor<unsigned char> seen({queries, keys});
  for (Index t = 0; t < queries; ++t) {
    for (Index s = 0; s < keys; ++s) {
      S dot(0);
      for (Index d = 0; d < q.columns(); ++d) dot += q(t, d) * k(s, d);
      score(t, s) = dot * scale;
      if (!mask.added.absent()) score(t, s) += S(mask_addend(mask, b, h, t, s));
      bool blocked = options.causal && causally_blocked(t, s, past, mistakes);
      if (blocked && mistakes.mask == MaskMistake::kSetToValue) {
        score(t, s) = S(mistakes.mask_value);
        blocked = false;
      }
      seen(t, s) = !blocked && !masked(mask, b, h, t, s);
      score(t, s) = rounded(score(t, s), options.numbers);
    }
  }
  if (mistakes.softmax_over_queries) {
    for (Index s = 0; s < keys; ++s) {
      softmax_over(
          queries, [&](Index t) { return score(t, s); }, [&](Index t) { return seen(t, s) != 0; },
          [&](Index t) -> S& { return p(t, s); });
    }
  } else {
    for (Index t = 0; t < queries; ++t) {
      softmax_over(
          keys, [&](Index s) { return score(t, s); }, [&](Index s) { return seen(t, s) != 0; },
          [&](Index s) -> S& { return p(t, s); });
    }
  }
  return rounded(std::move(p), options.numbers);
}

// o = P v: [T, D]. torch.nn.functional.scaled_dot_product_attention for one head.
template <typename S>
Tensor<S> scaled_dot_product_attention(const Tensor<S>& q, const Tensor<S>& k, const Tensor<S>& v,
                                       const AttentionOptions& options = {},
                                       const AttentionMask& mask = {}, Index b = 0, Index h = 0) {
  check_shape("attention: keys", k.shape(), {k.rows(), q.columns()});
  check_shape("attention: values", v.shape(), {k.rows(), v.columns()});
  const Tensor<S> p = attention_probabilities(q, k, options, mask, b, h);
  Tensor<S> o({q.rows(), v.columns()});
  for (Index t = 0; t < q.rows(); ++t) {
    for (Index s = 0; s < k.rows(); ++s) {
      if (p(t, s) == S(0)) continue;  // a key that is not seen may even hold a NaN
      for (Index d = 0; d < v.columns(); ++d) o(t, d) += p(t, s) * v(s, d);
    }
  }
  return rounded(std::move(o), options.numbers);
}

template <typename S>
struct HeadGradients {
  Tensor<S> dq, dk, dv;
};

//   dv = Pᵀ do      dP = do vᵀ      dscore_ts = P_ts (dP_ts − Σ_u P_tu dP_tu)
//   dq = dscore k / √D      dk = dscoreᵀ q / √D
template <typename S>
HeadGradients<S> scaled_dot_product_attention_backward(const Tensor<S>& d_o, const Tensor<S>& q,
                                                       const Tensor<S>& k, const Tensor<S>& v,
                                                       const AttentionOptions& options = {},
                                                       const AttentionMask& mask = {}, Index b = 0,
                                                       Index h = 0) {
  require_no_mistake("attention", options.mistakes);
  const Index keys = k.rows(), width = q.columns();
  const S scale = score_scale<S>(options, width);
  const Tensor<S> p = attention_probabilities(q, k, options, mask, b, h);
  HeadGradients<S> d{zeros_like(q), zeros_like(k), zeros_like(v)};
  for (Index t = 0; t < q.rows(); ++t) {
    Tensor<S> dp({keys});
    S mean_dp(0);
    for (Index s = 0; s < keys; ++s) {
      if (p(t, s) == S(0)) continue;
      for (Index c = 0; c < v.columns(); ++c) {
        d.dv(s, c) += p(t, s) * d_o(t, c);
        dp[s] += d_o(t, c) * v(s, c);
      }
      mean_dp += p(t, s) * dp[s];
    }
    for (Index s = 0; s < keys; ++s) {
      if (p(t, s) == S(0)) continue;
      const S dscore = p(t, s) * (dp[s] - mean_dp);
      for (Index c = 0; c < width; ++c) {
        d.dq(t, c) += dscore * k(s, c) * scale;
        d.dk(s, c) += dscore * q(t, c) * scale;
      }
    }
  }
  return d;
}

// --- All heads ----------------------------------------------------------------------------------

// qkv: [B, T, 3 C] or [T, 3 C]; returns [B, T, C] or [T, C]. Throws ShapeError.
template <typename S>
Tensor<S> attention(const Tensor<S>& qkv, const AttentionOptions& options,
                    const AttentionMask& mask = {}) {
  HeadPlace head = check_heads(qkv, options.heads, options.mistakes);
  check_mask(mask, head.batch, head.time, head.time, head.heads);
  Tensor<S> out(with_columns(qkv, head.width()));
  for (head.b = 0; head.b < head.batch; ++head.b) {
    for (head.h = 0; head.h < head.heads; ++head.h) {
      const Tensor<S> q = take_head(qkv, head, 'q', options.mistakes);
      const Tensor<S> k = take_head(qkv, head, 'k', options.mistakes);
      const Tensor<S> v = take_head(qkv, head, 'v', options.mistakes);
      const Tensor<S> o = scaled_dot_product_attention(q, rounded(k, options.cache_numbers),
                                                       rounded(v, options.cache_numbers), options,
                                                       mask, head.b, head.h);
      put_merged(o, head, options.mistakes, out);
    }
  }
  return out;
}

// dout: [B, T, C]; returns the gradient of qkv, packed as it is.
template <typename S>
Tensor<S> attention_backward(const Tensor<S>& dout, const Tensor<S>& qkv,
                             const AttentionOptions& options, const AttentionMask& mask = {}) {
  require_no_mistake("attention", options.mistakes);
  HeadPlace head = check_heads(qkv, options.heads, options.mistakes);
  check_mask(mask, head.batch, head.time, head.time, head.heads);
  check_shape("attention: dout", dout.shape(), with_columns(qkv, head.width()));
  Tensor<S> dqkv(qkv.shape());
  for (head.b = 0; head.b < head.batch; ++head.b) {
    for (head.h = 0; head.h < head.heads; ++head.h) {
      const HeadGradients<S> d = scaled_dot_product_attention_backward(
          take_merged(dout, head), take_head(qkv, head, 'q'), take_head(qkv, head, 'k'),
          take_head(qkv, head, 'v'), options, mask, head.b, head.h);
      put_head(d.dq, head, 'q', dqkv);
      put_head(d.dk, head, 'k', dqkv);
      put_head(d.dv, head, 'v', dqkv);
    }
  }
  return dqkv;
}

}  // namespace prenorm::reference
