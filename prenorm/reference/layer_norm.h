// Layer norm over the last axis (Ba, Kiros, Hinton 2016), for each row x of C features:
//
//   μ = 1/C Σ_c x_c      σ² = 1/C Σ_c (x_c − μ)²      population variance
//   x̂ = (x − μ) / √(σ² + ε)                            ε inside the root
//   y = γ ⊙ x̂ + β
//
// The derivation of the backward pass is docs/derivations/layer_norm.md.
#pragma once
#include <cmath>

#include "prenorm/reference/mistakes.h"
#include "prenorm/reference/numbers.h"
#include "prenorm/reference/tensor.h"

namespace prenorm::reference {

template <typename S>
struct LayerNormParameters {
  Tensor<S> weight = {};  // γ: [C], or absent: 1
  Tensor<S> bias = {};    // β: [C], or absent: 0
};

struct LayerNormOptions {
  double eps = 1e-5;
  Numbers numbers = Numbers::kExact;  // of the result
  LayerNormMistakes mistakes = {};
};

// The elements that one mean and one variance are taken over: `count` of them, `step` apart.
struct NormalizedLine {
  Index first, step, count;
};

// Line `i` of x: row i; with the mistake, one channel of one sequence along the time.
template <typename S>
NormalizedLine normalized_line(const Tensor<S>& x, Index i, bool over_time) {
  const Index width = x.columns();
  if (!over_time) return {i * width, 1, width};
  const Index time = extents_of("layer_norm", x).time;
  return {i / width * time * width + i % width, width, time};
}

template <typename S>
struct LineStatistics {
  S mean, variance;
};

// μ and σ² of one line.
template <typename S>
LineStatistics<S> line_statistics(const Tensor<S>& x, const NormalizedLine& line,
                                  const LayerNormMistakes& mistakes = {}) {
  const S count = S(static_cast<double>(line.count));
  S mean(0);
  for (Index k = 0; k < line.count; ++k) mean += x[line.first + k * line.step];
  mean /= count;
  if (mistakes.rms) mean = S(0);

  S variance(0);
  for (Index k = 0; k < line.count; ++k) {
    const S centred = x[line.first + k * line.step] - mean;
    variance += centred * centred;
  }
  variance /= mistakes.ddof ? count - S(1) : count;
  return {mean, variance};
}

// √(σ² + ε)
template <typename S>
S line_denominator(const S& variance, const LayerNormOptions& options) {
  using std::sqrt;
  const S eps = S(options.eps);
  switch (options.mistakes.eps_place) {
    case EpsilonPlace::kOutsideRoot:
      return sqrt(variance) + eps;
    case EpsilonPlace::kAddedAfter:
      return sqrt(variance);
    default:
      return sqrt(variance + eps);
  }
}

// The normalised line x̂ = (x − μ) / √(σ² + ε), and 1 / √(σ² + ε).
template <typename S>
S normalize_line(const Tensor<S>& x, const NormalizedLine& line, const LayerNormOptions& options,
                 Tensor<S>& x_hat) {
  const auto [mean, variance] = line_statistics(x, line, options.mistakes);
  const S denominator = line_denominator(variance, options);
  for (Index k = 0; k < line.count; ++k) {
    const Index i = line.first + k * line.step;
    x_hat[i] = (x[i] - mean) / denominator;
    if (options.mistakes.eps_place == EpsilonPlace::kAddedAfter) x_hat[i] += S(options.eps);
  }
  return S(1) / denominator;
}

// How many lines the statistics of x are taken over.
template <typename S>
Index normalized_lines(const Tensor<S>& x, bool over_time) {
  return over_time ? extents_of("layer_norm", x).batch * x.columns() : x.rows();
}

template <typename S>
void check_layer_norm(const Tensor<S>& x, const LayerNormParameters<S>& p) {
  const std::vector<Index> features{x.columns()};
  if (!p.weight.absent()) check_shape("layer_norm: weight", p.weight.shape(), features);
  if (!p.bias.absent()) check_shape("layer_norm: bias", p.bias.shape(), features);
}

// x, y: [.., C]. Throws ShapeError.
template <typename S>
Tensor<S> layer_norm(const Tensor<S>& x, const LayerNormParameters<S>& p,
                     const LayerNormOptions& options = {}) {
  check_layer_norm(x, p);
  const Index width = x.columns();
  Tensor<S> x_hat(x.shape());
  const bool over_time = options.mistakes.over_time;
  for (Index i = 0; i < normalized_lines(x, over_time); ++i) {
    normalize_line(x, normalized_line(x, i, over_time), options, x_hat);
  }
  const bool scale = !p.weight.absent() && !options.mistakes.no_weight;
  const bool shift = !p.bias.absent() && !options.mistakes.no_bias;
  Tensor<S> y = x_hat;
  for (Index n = 0; n < y.rows(); ++n) {
    for (Index c = 0; c < width; ++c) {
      if (scale) y(n, c) = p.weight[c] * x_hat(n, c);
      if (shift) y(n, c) = y(n, c) + p.bias[c];
    }
  }
  return rounded(std::move(y), options.numbers);
}

// With g = dy ⊙ γ and r = 1 / √(σ² + ε):
//
//   dx = r (g − mean(g) − x̂ mean(g ⊙ x̂))      dγ = Σ_n dy ⊙ x̂      dβ = Σ_n dy
template <typename S>
Gradients<S, LayerNormParameters<S>> layer_norm_backward(const Tensor<S>& dy, const Tensor<S>& x,
                                                         const LayerNormParameters<S>& p,
                                                         const LayerNormOptions& options = {}) {
  require_no_mistake("layer_norm", options.mistakes);
  check_layer_norm(x, p);
  check_shape("layer_norm: dy", dy.shape(), x.shape());
  const Index width = x.columns();
  const S count = S(static_cast<double>(width));
  Tensor<S> x_hat(x.shape()), dx(x.shape());
  LayerNormParameters<S> dp{zeros_like(p.weight), zeros_like(p.bias)};

  for (Index n = 0; n < x.rows(); ++n) {
    const S r = normalize_line(x, normalized_line(x, n, false), options, x_hat);
    std::vector<S> g;
    S mean_g(0), mean_g_x_hat(0);
    for (Index c = 0; c < width; ++c) {
      g.push_back(p.weight.absent() ? dy(n, c) : dy(n, c) * p.weight[c]);
      mean_g += g.back() / count;
      mean_g_x_hat += g.back() * x_hat(n, c) / count;
    }
    for (Index c = 0; c < width; ++c) {
      const S g_c = g[static_cast<std::size_t>(c)];
      dx(n, c) = r * (g_c - mean_g - x_hat(n, c) * mean_g_x_hat);
      if (!p.weight.absent()) dp.weight[c] += dy(n, c) * x_hat(n, c);
      if (!p.bias.absent()) dp.bias[c] += dy(n, c);
    }
  }
  return {std::move(dx), std::move(dp)};
}

}  // namespace prenorm::reference
