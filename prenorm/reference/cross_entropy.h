// The vocabulary projection and the loss:
//
//   z = x Wᵀ                                  logits, W [V, C]: wte if the head is tied
//   loss_n = log Σ_v exp z_nv − z_n,target    0 for a target that is ignored
//
// With label smoothing ε (Szegedy et al. 2016) the target is a distribution: 1 − ε on the token,
// and ε/V more on each of the V classes:
//
//   loss_n = log Σ_v exp z_nv − (1 − ε) z_n,target − ε/V Σ_v z_nv
//
// The loss is a sum over tokens; the caller's scale makes it a mean (1 / number of targets, which
// may count targets of other micro-batches). The derivation is
// docs/derivations/cross_entropy_head.md.
#pragma once
#include <cmath>

#include "prenorm/reference/embedding.h"
#include "prenorm/reference/linear.h"
#include "prenorm/reference/softmax.h"

namespace prenorm::reference {

constexpr TokenId kIgnoreTarget = -1;

// z = x Wᵀ. x: [.., C], weight: [V, C]; returns [.., V].
template <typename S>
Tensor<S> vocabulary_projection(const Tensor<S>& x, const Tensor<S>& weight,
                                Numbers numbers = Numbers::kExact) {
  return linear(x, {transposed(weight), {}}, {numbers, {}});
}

// dx = dz W, dW = dzᵀ x
template <typename S>
Gradients<S, Tensor<S>> vocabulary_projection_backward(const Tensor<S>& dz, const Tensor<S>& x,
                                                       const Tensor<S>& weight) {
  auto [dx, d] = linear_backward(dz, x, {transposed(weight), {}});
  return {std::move(dx), transposed(d.weight)};
}

// Throws ShapeError unless there is one target a row, DataError for a target out of range.
template <typename S>
void check_targets(const Tensor<S>& logits, const Tokens& targets, TokenId ignore) {
  if (targets.size() != logits.rows()) {
    throw ShapeError("cross_entropy: targets: expected " + std::to_string(logits.rows()) +
                     " targets, found " + std::to_string(targets.size()));
  }
  for (const TokenId target : targets) {
    if (target == ignore || (target >= 0 && target < logits.columns())) continue;
    throw DataError("cross_entropy: target: expected 0 to " + std::to_string(logits.columns() - 1) +
                    " or " + std::to_string(ignore) + ", found " + std::to_string(target));
  }
}

inline Index count_targets(const Tokens& targets, TokenId ignore = kIgnoreTarget) {
  Index n = 0;
  for (const TokenId target : targets) n += target != ignore ? 1 : 0;
  return n;
}

// The loss of each row. logits: [.., V]; targets: one a row; returns [rows].
template <typename S>
Tensor<S> cross_entropy(const Tensor<S>& logits, const Tokens& targets,
                        TokenId ignore = kIgnoreTarget, double label_smoothing = 0.0) {
  using std::exp, std::log;
  check_targets(logits, targets, ignore);
  Tensor<S> losses({logits.rows()});
  for (Index n = 0; n < logits.rows(); ++n) {
    if (targets[n] == ignore) continue;
    S largest = logits(n, 0);
    for (Index v = 1; v < logits.columns(); ++v) {
      if (logits(n, v) > largest) largest = logits(n, v);
    }
    S sum(0);
    for (Index v = 0; v < logits.columns(); ++v) sum += exp(logits(n, v) - largest);
    losses[n] = log(sum) + (largest - logits(n, targets[n]));
    if (label_smoothing == 0.0) continue;
    S above_mean(0);
    for (Index v = 0; v < logits.columns(); ++v) above_mean += logits(n, targets[n]) - logits(n, v);
    losses[n] += S(label_smoothing / static_cast<double>(logits.columns())) * above_mean;
  }
  return losses;
}

// The gradient of scale · Σ_n loss_n:
//   dz_nv = scale (softmax(z_n)_v − (1 − ε) [v = target_n] − ε/V)
template <typename S>
Tensor<S> cross_entropy_backward(const Tensor<S>& logits, const Tokens& targets, const S& scale,
                                 TokenId ignore = kIgnoreTarget, double label_smoothing = 0.0) {
  check_targets(logits, targets, ignore);
  Tensor<S> dlogits = softmax(logits);
  const S share = S(label_smoothing / static_cast<double>(logits.columns()));
  for (Index n = 0; n < logits.rows(); ++n) {
    if (targets[n] != ignore) dlogits(n, targets[n]) -= S(1.0 - label_smoothing);
    for (Index v = 0; v < logits.columns(); ++v) {
      dlogits(n, v) -= share;
      dlogits(n, v) = targets[n] == ignore ? S(0) : scale * dlogits(n, v);
    }
  }
  return dlogits;
}

}  // namespace prenorm::reference
