// What the lesson page computes, with the textbook of prenorm/reference and nothing else: layer
// norm step by step, a small language model with all its stages, and growth by depth. Every
// function returns tensors by name.
//
//   const Results by_hand = layer_norm_steps(x, {gamma, beta}, {.eps = 1e-5});
//   const Results run = model_stages(small_model(), "hello", {.mistakes = {{.name =
//   "norm.ddof"}}}); const Results curves = growth_by_depth({.depth = 12, .gain = 4.0});
#pragma once
#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "prenorm/base/philox.h"
#include "prenorm/reference/gpt.h"
#include "prenorm/reference/mistake_table.h"
#include "prenorm/reference/stages.h"

namespace prenorm::lesson {

using reference::Tensor;
using Results = reference::Stages<double>;

// Uniform in [centre − spread, centre + spread], in steps of 1/64: numbers that a float32 file
// holds exactly. `stream` sets apart the tensors of one seed.
inline Tensor<double> random_tensor(std::vector<Index> shape, double spread, double centre,
                                    std::uint32_t stream) {
  const PhiloxKey key = RandomStream{.seed = 8, .layer = stream}.key();
  Tensor<double> out(std::move(shape));
  for (Index i = 0; i < out.size(); ++i) {
    const double u = 2.0 * random_double(key, static_cast<std::uint64_t>(i)) - 1.0;
    out[i] = std::floor(64.0 * (centre + spread * u) + 0.5) / 64.0;
  }
  return out;
}

// --- Layer norm by hand -------------------------------------------------------------------------

// Results: mean, variance and denominator of each line, x_hat, scaled (γ ⊙ x̂), y. x: [T, C].
inline Results layer_norm_steps(const Tensor<double>& x,
                                const reference::LayerNormParameters<double>& p,
                                const reference::LayerNormOptions& options) {
  using reference::layer_norm;
  const Index lines = reference::normalized_lines(x, options.mistakes.over_time);
  Tensor<double> mean({lines}), variance({lines}), denominator({lines});
  for (Index i = 0; i < lines; ++i) {
    const auto line = reference::normalized_line(x, i, options.mistakes.over_time);
    const auto statistics = reference::line_statistics(x, line, options.mistakes);
    mean[i] = statistics.mean;
    variance[i] = statistics.variance;
    denominator[i] = reference::line_denominator(statistics.variance, options);
  }
  Results out;
  out.set("mean", mean);
  out.set("variance", variance);
  out.set("denominator", denominator);
  out.set("x_hat", layer_norm(x, {}, options));
  out.set("scaled", layer_norm(x, {.weight = p.weight}, options));
  out.set("y", layer_norm(x, p, options));
  return out;
}

// --- The small model ----------------------------------------------------------------------------

inline constexpr Index kLayers = 2, kHeads = 2, kWidth = 8, kInner = 32, kContext = 16;
inline constexpr std::string_view kAlphabet = "abcdefghijklmnopqrstuvwxyz ";

// How far the entries of a parameter spread, so that every mistake has something to bite on.
inline Tensor<double> small_parameter(std::string_view name, std::uint32_t stream) {
  const Index vocabulary = static_cast<Index>(kAlphabet.size());
  const bool norm = name.find("ln_") != name.npos, bias = name.ends_with(".bias");
  if (norm) return random_tensor({kWidth}, bias ? 0.4 : 0.5, bias ? 0.0 : 1.0, stream);
  if (name.ends_with("wte.weight") || name == "lm_head.weight") {
    return random_tensor({vocabulary, kWidth}, 1.0, 0.0, stream);
  }
  // One position more than the context, for a model that counts from one.
  if (name.ends_with("wpe.weight")) return random_tensor({kContext + 1, kWidth}, 0.6, 0.0, stream);
  struct Linear {
    std::string_view module;
    Index in, out;
    double spread;
  };
  constexpr std::array kLinears = {
      Linear{"attn.c_attn", kWidth, 3 * kWidth, 0.9}, Linear{"attn.c_proj", kWidth, kWidth, 0.6},
      Linear{"mlp.c_fc", kWidth, kInner, 0.6}, Linear{"mlp.c_proj", kInner, kWidth, 0.3}};
  for (const Linear& linear : kLinears) {
    if (name.find(linear.module) == name.npos) continue;
    if (bias) return random_tensor({linear.out}, 0.4, 0.0, stream);
    return random_tensor({linear.in, linear.out}, linear.spread, 0.0, stream);
  }
  throw ConfigError("lesson: expected a parameter of a GPT-2, found '" + std::string(name) + "'");
}

inline reference::GptParameters<double> small_model() {
  reference::GptParameters<double> p;
  p.h.resize(kLayers);
  std::uint32_t stream = 0;
  reference::for_each_parameter(p, [&](const std::string& name, Tensor<double>& tensor) {
    tensor = small_parameter(name, ++stream);
  });
  return p;
}

// Throws DataError for a character outside the alphabet.
inline reference::Tokens tokens_of(std::string_view text) {
  reference::Tokens tokens({1, static_cast<Index>(text.size())});
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::size_t id = kAlphabet.find(text[i]);
    if (id == kAlphabet.npos) {
      throw DataError("lesson: text: expected a to z and spaces, found '" +
                      std::string(text.substr(i, 1)) + "'");
    }
    tokens[static_cast<Index>(i)] = static_cast<TokenId>(id);
  }
  return tokens;
}

struct ModelRun {
  reference::GptSettings settings = {.n_layer = kLayers, .n_head = kHeads};
  double strength = 1.0;  // by which the outputs of all sub-layers are multiplied
  std::vector<reference::MistakeChoice> mistakes = {};
};

// The sub-layers times `strength`: their last weights and biases are.
inline void scale_sublayers(reference::GptParameters<double>& p, double strength) {
  for (auto& block : p.h) {
    for (auto* linear : {&block.attn.c_proj, &block.mlp.c_proj}) {
      for (double& w : linear->weight) w *= strength;
      for (double& b : linear->bias) b *= strength;
    }
  }
}

// The probabilities of all heads, one below the other: [H·T, T].
inline Tensor<double> all_probabilities(const Tensor<double>& qkv,
                                        const reference::AttentionOptions& options) {
  auto head = reference::check_heads(qkv, options.heads, options.mistakes);
  Tensor<double> out({head.heads * head.time, head.time});
  for (head.h = 0; head.h < head.heads; ++head.h) {
    const auto p = reference::attention_probabilities(
        reference::take_head(qkv, head, 'q', options.mistakes),
        reference::take_head(qkv, head, 'k', options.mistakes), options, {}, 0, head.h);
    for (Index i = 0; i < p.size(); ++i) out[head.h * p.size() + i] = p[i];
  }
  return out;
}

// Every stage of a run by Hugging Face's names (reference/gpt.h), and for each block
// attn.probabilities and the residual sums as the correct block forms them: sum_1, sum_2.
inline Results model_stages(reference::GptParameters<double> p, std::string_view text,
                            const ModelRun& run) {
  reference::GptOptions options = reference::gpt_options(run.settings);
  for (const auto& mistake : run.mistakes) reference::make_mistake(options, mistake);
  scale_sublayers(p, run.strength);
  Results out;
  reference::gpt(tokens_of(text), p, options, {}, reference::Recorder<double>(&out));
  std::string before = "transformer.drop";
  for (std::size_t l = 0; l < options.h.size(); ++l) {
    const std::string block = "transformer.h." + std::to_string(l);
    const auto stage = [&](const std::string& name) { return *out.find(block + name); };
    const Tensor<double> sum_1 = reference::add(*out.find(before), stage(".attn.c_proj"));
    const bool pre = options.h[l].norm == reference::NormPlacement::kPre;
    out.set(block + ".sum_1", sum_1);
    out.set(block + ".sum_2", reference::add(pre ? sum_1 : stage(".ln_1"), stage(".mlp.c_proj")));
    out.set(block + ".attn.probabilities",
            all_probabilities(stage(".attn.c_attn"), options.h[l].attn.core));
    before = block;
  }
  return out;
}

// --- Growth by depth ----------------------------------------------------------------------------

struct Growth {
  Index depth = 12;
  double gain = 1.0;  // of every layer: how many times larger than its input its output is
};

inline double root_mean_square(const Tensor<double>& x) {
  double sum = 0.0;
  for (const double element : x) sum += element * element;
  return std::sqrt(sum / static_cast<double>(x.size()));
}

// A matrix that makes every row `gain` times as long, and otherwise only turns it: random rows made
// orthogonal to each other (Gram, Schmidt).
inline Tensor<double> turning_matrix(Index width, double gain, std::uint32_t stream) {
  Tensor<double> w = random_tensor({width, width}, 1.0, 0.0, stream);
  const auto dot = [&](Index i, Index j) {
    double sum = 0.0;
    for (Index c = 0; c < width; ++c) sum += w(i, c) * w(j, c);
    return sum;
  };
  for (Index i = 0; i < width; ++i) {
    for (Index j = 0; j < i; ++j) {
      const double along = dot(i, j);
      for (Index c = 0; c < width; ++c) w(i, c) -= along * w(j, c);
    }
    const double length = std::sqrt(dot(i, i));
    for (Index c = 0; c < width; ++c) w(i, c) /= length;
  }
  for (double& element : w) element *= gain;
  return w;
}

// The size (root mean square) of what goes on to the next layer, from the input, of size 1, to
// after layer `depth`, where a layer is a matrix W:
//   plain x W    normed LN(x W)    residual x + x W    pre x + LN(x) W    post LN(x + x W)
// and pre.branch: the size of LN(x), which the branch of the pre-norm block sees.
inline Results growth_by_depth(const Growth& growth) {
  using reference::add, reference::layer_norm, reference::linear;
  constexpr Index kRows = 16, kColumns = 32;
  const Tensor<double> x =
      layer_norm(random_tensor({kRows, kColumns}, 1.0, 0.0, 1000), {}, {.eps = 0.0});
  Tensor<double> plain = x, normed = x, residual = x, pre = x, post = x;
  constexpr std::array kNames = {"plain", "normed", "residual", "pre", "post"};
  const std::array<Tensor<double>*, 5> streams = {&plain, &normed, &residual, &pre, &post};
  std::array<Tensor<double>, 5> sizes;
  sizes.fill(Tensor<double>({growth.depth + 1}));
  Tensor<double> branch({growth.depth});
  for (Index l = 0;; ++l) {
    for (std::size_t i = 0; i < streams.size(); ++i) sizes[i][l] = root_mean_square(*streams[i]);
    if (l == growth.depth) break;
    const reference::LinearParameters<double> w{
        turning_matrix(kColumns, growth.gain, static_cast<std::uint32_t>(l) + 1)};
    const Tensor<double> seen = layer_norm(pre, {});
    branch[l] = root_mean_square(seen);
    plain = linear(plain, w);
    normed = layer_norm(linear(normed, w), {});
    residual = add(residual, linear(residual, w));
    pre = add(pre, linear(seen, w));
    post = layer_norm(add(post, linear(post, w)), {});
  }
  Results out;
  for (std::size_t i = 0; i < streams.size(); ++i) out.set(kNames[i], sizes[i]);
  out.set("pre.branch", branch);
  return out;
}

}  // namespace prenorm::lesson
