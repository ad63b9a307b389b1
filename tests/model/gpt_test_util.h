// What the tests of the model share: small configurations, token windows, a model with random
// weights everywhere, and its textbook.
#pragma once
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "prenorm/model/gpt.h"
#include "tests/config_of.h"
#include "tests/layers/dropout_textbook.h"
#include "tests/layers/layer_test_util.h"

namespace prenorm {

struct ConfigChange {
  NormPlacement norm = NormPlacement::kPre;
  bool tied = true, bias = true;
  double dropout = 0.0;  // of all three places
  Activation activation = Activation::kGeluTanh;
};

inline GptConfig small_config(const ConfigChange& change = {}) {
  GptConfig c = config_of(2, 2, 10, 80, 23);
  c.n_inner = 31;
  c.norm = change.norm;
  c.tie_word_embeddings = change.tied;
  c.bias = change.bias;
  c.activation = change.activation;
  c.embd_pdrop = c.attn_pdrop = c.resid_pdrop = change.dropout;
  return c;
}

// What a test that fails was about.
inline std::string name(const GptConfig& c) {
  return std::string(norm_placement_name(c.norm)) + (c.tie_word_embeddings ? " tied" : " untied") +
         (c.bias ? " bias" : " no bias") + " dropout " + std::to_string(c.embd_pdrop);
}

// Both norm placements, tied and untied.
inline std::vector<GptConfig> each_kind(double dropout = 0.0) {
  std::vector<GptConfig> all;
  for (NormPlacement norm : {NormPlacement::kPre, NormPlacement::kPost}) {
    for (bool tied : {true, false}) {
      ConfigChange change{norm, tied};
      change.dropout = dropout;
      all.push_back(small_config(change));
    }
  }
  return all;
}

// Random weights of order one everywhere, biases and norms too: unlike initialize(), no gradient of
// them is small.
inline std::unique_ptr<Gpt> random_model(const GptConfig& config,
                                         Gpt::Mode mode = Gpt::Mode::kTraining,
                                         std::uint64_t seed = 1) {
  auto model = std::make_unique<Gpt>(config, mode);
  for (Parameter& p : model->parameters()) set_values(p, random_tensor(p.shape, ++seed, 0.7));
  return model;
}

// Token windows [B, T] with targets; every ninth target is ignored.
struct Windows {
  Index batch, time;
  std::vector<TokenId> inputs, targets;

  Windows(Index b, Index t, Index vocabulary, std::uint32_t seed = 3) : batch(b), time(t) {
    const auto draw = [&](Index i) {
      return static_cast<TokenId>(random_word({seed, 5}, static_cast<std::uint64_t>(i)) %
                                  static_cast<std::uint32_t>(vocabulary));
    };
    for (Index i = 0; i < b * t; ++i) {
      inputs.push_back(draw(i));
      targets.push_back(i % 9 == 4 ? -1 : draw(i + 1));
    }
  }
  TokenMatrix tokens() const { return {inputs.data(), {batch, time}}; }
  TokenBatch all() const { return {tokens(), {targets.data(), {batch, time}}}; }
  // Sequences [first, first + count).
  TokenBatch part(Index first, Index count) const {
    return {{inputs.data() + first * time, {count, time}},
            {targets.data() + first * time, {count, time}}};
  }
};

constexpr Gpt::DropoutPosition kStep{.seed = 42, .step = 7, .first_sequence = 0};

inline std::vector<float> gradients_of(const Gpt& model) {
  const auto grads = model.parameters().grads();
  return {grads.begin(), grads.end()};
}

struct TestStep {
  double loss = 0.0;
  std::vector<float> gradients;
};

// All windows in micro-batches of the given numbers of sequences; `place_sequences`: each with the
// random numbers of its place among them all.
inline TestStep step_of(const Runtime& run, Gpt& model, const Windows& w,
                        const std::vector<Index>& micro_batches, bool place_sequences = true) {
  Gpt::Workspace work = model.make_workspace(*std::ranges::max_element(micro_batches), w.time);
  model.parameters().zero_grad();
  const double scale = 1.0 / static_cast<double>(w.batch * w.time);
  TestStep step;
  Index first = 0;
  for (const Index count : micro_batches) {
    Gpt::DropoutPosition at = kStep;
    if (place_sequences) at.first_sequence = first;
    step.loss += model.forward_backward(run, work, w.part(first, count), scale, at).loss;
    first += count;
  }
  model.finish_gradients(run, work);
  step.gradients = gradients_of(model);
  return step;
}

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

inline TestMatrix logits_of(const Runtime& run, const Gpt& model, const Windows& w) {
  Gpt::Workspace work = model.make_workspace(w.batch, w.time);
  TestMatrix logits(w.batch * w.time, model.config().vocab_size);
  model.logits(run, work, w.tokens(), logits.view());
  return logits;
}

// Σ loss as a function of the parameters in the order of the registry; dropout as at kStep.
inline auto textbook_of(const Gpt& model, const Windows& w) {
  std::vector<std::string> names;
  for (const Parameter& p : model.parameters()) names.push_back(p.name);
  return [names, c = model.config(), tokens = reference::Tokens({w.batch, w.time}, w.inputs),
          targets = reference::Tokens({w.batch * w.time}, w.targets)]<typename S>(
             const std::vector<reference::Tensor<S>>& in) {
    reference::ParameterMap<S> map;
    for (std::size_t i = 0; i < in.size(); ++i) map[names[i]] = in[i];
    const auto p = reference::from_map(map, c.n_layer);
    auto options = reference::gpt_options({.n_layer = c.n_layer,
                                           .n_head = c.n_head,
                                           .norm = textbook(c.norm),
                                           .activation = textbook(c.activation),
                                           .eps = c.layer_norm_epsilon,
                                           .tied = c.tie_word_embeddings});
    for (std::size_t l = 0; l < options.h.size(); ++l) {
      options.h[l].attn.core.scale = c.attention_scale(static_cast<Index>(l));
    }
    auto x = dropped(reference::embedding(tokens, p.embedding),
                     {{kStep.seed, Purpose::kEmbeddingDropout, kStep.step, 0}, c.embd_pdrop, 0});
    for (std::size_t l = 0; l < p.h.size(); ++l) {
      TransformerBlock::Options rates;
      rates.heads = c.n_head;
      rates.attn_pdrop = c.attn_pdrop;
      rates.resid_pdrop = c.resid_pdrop;
      rates.layer = static_cast<Index>(l);
      x = transformer_block_with_dropout(x, p.h[l], options.h[l], rates, kStep);
    }
    const auto normed = reference::layer_norm(x, p.ln_f, options.ln_f);
    const auto logits = reference::vocabulary_projection(normed, head_weight(p, options));
    const auto losses = reference::cross_entropy(logits, targets);
    reference::Tensor<S> sum({1});
    for (const S& loss : losses) sum[0] += loss;
    return sum;
  };
}

// A step on the whole batch. y is Σ loss, and so dy the scale.
inline Subject subject_of(Gpt& model, const Windows& w, double scale, bool finish = true) {
  Subject s{{}, Tensor::filled({1}, scale), {}};
  append_values(model.parameters(), s.x);
  s.run = [&model, w, scale, finish](const Runtime& run) {
    Gpt::Workspace work = model.make_workspace(w.batch, w.time);
    model.parameters().zero_grad();
    const LossSum loss = model.forward_backward(run, work, w.all(), scale, kStep);
    if (finish) model.finish_gradients(run, work);
    Outcome out{Tensor::filled({1}, loss.loss), {}};
    append_gradients(model.parameters(), out.gradients);
    return out;
  };
  return s;
}

}  // namespace prenorm
