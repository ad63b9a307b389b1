// A whole GPT-style language model:
//
//   x = wte[token] + wpe[t];   x = block_l(x) for each layer;   logits = ln_f(x) Wᵀ
//
// with the head W tied to wte unless there is an lm_head. Every stage can be recorded under the
// name of Hugging Face's module; every classic mistake is an option of the layer where it is made.
//
//   const GptOptions options = gpt_options({.n_layer = 12, .n_head = 12});
//   const Tensor<double> logits = gpt(tokens, from_map(map, 12), options);
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "prenorm/reference/cross_entropy.h"
#include "prenorm/reference/gpt_parameters.h"

namespace prenorm::reference {

// What a configuration says, the same for every layer.
struct GptSettings {
  Index n_layer = 1;
  Index n_head = 1;
  NormPlacement norm = NormPlacement::kPre;
  Activation activation = Activation::kGeluTanh;
  double eps = 1e-5;
  bool tied = true;
};

struct GptOptions {
  std::vector<BlockOptions> h = {};  // one a layer, so that a mistake may be in one of them only
  LayerNormOptions ln_f = {};
  bool tied = true;                             // the head is wte, else lm_head
  Numbers numbers = Numbers::kExact;            // of the embedding sum and the logits
  Numbers parameter_numbers = Numbers::kExact;  // to which the parameters are rounded first
  GptMistakes mistakes = {};
};

inline GptOptions gpt_options(const GptSettings& settings) {
  BlockOptions block;
  block.norm = settings.norm;
  block.ln_1.eps = block.ln_2.eps = settings.eps;
  block.attn.core.heads = settings.n_head;
  block.mlp.act.kind = settings.activation;
  GptOptions options;
  options.h.assign(static_cast<std::size_t>(settings.n_layer), block);
  options.ln_f.eps = settings.eps;
  options.tied = settings.tied;
  return options;
}

template <typename S>
const Tensor<S>& head_weight(const GptParameters<S>& p, const GptOptions& options) {
  if (!options.tied && p.lm_head.absent()) {
    throw ConfigError("gpt: lm_head: expected a weight for an untied head, found none");
  }
  return options.tied ? p.embedding.wte : p.lm_head;
}

template <typename S>
void check_layers(const GptParameters<S>& p, const GptOptions& options) {
  if (p.h.size() == options.h.size()) return;
  throw ConfigError("gpt: layers: expected options for " + std::to_string(p.h.size()) + ", found " +
                    std::to_string(options.h.size()));
}

// From the sum of the embeddings, x [B, T, C], to the logits [B, T, V].
template <typename S>
Tensor<S> gpt_from_embeddings(Tensor<S> x, const GptParameters<S>& p, const GptOptions& options,
                              const AttentionMask& mask = {}, const Recorder<S>& record = {}) {
  check_layers(p, options);
  const Recorder<S> inside = record.under("transformer.");
  x = inside("drop", std::move(x));
  for (std::size_t l = 0; l < p.h.size(); ++l) {
    const std::string name = "h." + std::to_string(l);
    x = inside(name, transformer_block(x, p.h[l], options.h[l], mask, inside.under(name + ".")));
  }
  for (Index call = 0; call < options.mistakes.final_norm_calls; ++call) {
    x = inside("ln_f", layer_norm(x, p.ln_f, options.ln_f));
  }
  return record("logits", vocabulary_projection(x, head_weight(p, options), options.numbers));
}

// Logits [B, T, V] of tokens [B, T]. Throws ShapeError, DataError, ConfigError. Stages:
// transformer.drop, transformer.h.N.*, transformer.h.N, transformer.ln_f, logits.
template <typename S>
Tensor<S> gpt(const Tokens& tokens, const GptParameters<S>& p, const GptOptions& options,
              const AttentionMask& mask = {}, const Recorder<S>& record = {}) {
  if (options.parameter_numbers != Numbers::kExact) {
    GptOptions rest = options;
    rest.parameter_numbers = Numbers::kExact;
    return gpt(tokens, rounded(p, options.parameter_numbers), rest, mask, record);
  }
  const Index offset = options.mistakes.position_offset;
  Tensor<S> x = embedding(tokens, p.embedding, offset, options.numbers);
  return gpt_from_embeddings(std::move(x), p, options, mask, record);
}

// scale · Σ loss, the number that training makes small.
template <typename S>
S gpt_loss(const Tokens& tokens, const Tokens& targets, const S& scale, const GptParameters<S>& p,
           const GptOptions& options, const AttentionMask& mask = {}) {
  S sum(0);
  for (const S& loss : cross_entropy(gpt(tokens, p, options, mask), targets)) sum += loss;
  return scale * sum;
}

// The gradient of every parameter, given that of the logits [B, T, V]. A tied head's gradient is
// added to wte's. Throws ConfigError if a mistake is set.
template <typename S>
GptParameters<S> gpt_backward(const Tensor<S>& dlogits, const Tokens& tokens,
                              const GptParameters<S>& p, const GptOptions& options,
                              const AttentionMask& mask = {}) {
  require_no_mistake("gpt", options.mistakes);
  check_layers(p, options);
  std::vector<Tensor<S>> x{embedding(tokens, p.embedding)};  // x[l] goes into block l
  for (std::size_t l = 0; l < p.h.size(); ++l) {
    x.push_back(transformer_block(x[l], p.h[l], options.h[l], mask));
  }
  const Tensor<S> n = layer_norm(x.back(), p.ln_f, options.ln_f);

  GptParameters<S> dp;
  dp.h.resize(p.h.size());
  auto [dn, dhead] = vocabulary_projection_backward(dlogits, n, head_weight(p, options));
  auto [dx, dln_f] = layer_norm_backward(dn, x.back(), p.ln_f, options.ln_f);
  dp.ln_f = std::move(dln_f);
  for (std::size_t l = p.h.size(); l-- > 0;) {
    auto [dx_l, dblock] = transformer_block_backward(dx, x[l], p.h[l], options.h[l], mask);
    dx = std::move(dx_l);
    dp.h[l] = std::move(dblock);
  }
  dp.embedding = embedding_backward(dx, tokens, p.embedding);
  if (options.tied) {
    dp.embedding.wte = add(dp.embedding.wte, dhead);
  } else {
    dp.lm_head = std::move(dhead);
  }
  return dp;
}

// The gradient of gpt_loss.
template <typename S>
GptParameters<S> gpt_loss_backward(const Tokens& tokens, const Tokens& targets, const S& scale,
                                   const GptParameters<S>& p, const GptOptions& options,
                                   const AttentionMask& mask = {}) {
  const Tensor<S> logits = gpt(tokens, p, options, mask);
  return gpt_backward(cross_entropy_backward(logits, targets, scale), tokens, p, options, mask);
}

}  // namespace prenorm::reference
