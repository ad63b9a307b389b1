#include "prenorm/layers/cross_entropy_loss.h"

#include <fmt/format.h>

#include "prenorm/kernels/cross_entropy.h"

namespace prenorm {
namespace {

LossSum sum(const std::vector<TokenId>& targets, const std::vector<double>& losses) {
  LossSum total;
  for (std::size_t n = 0; n < targets.size(); ++n) {
    if (targets[n] == kernels::kIgnoreTarget) continue;
    total.loss += losses[n];
    ++total.count;
  }
  return total;
}

}  // namespace

CrossEntropyLoss::CrossEntropyLoss(const Options& options) : options_(options) {
  const double smoothing = options.label_smoothing;
  if (!(smoothing >= 0.0 && smoothing <= 1.0)) {
    throw ConfigError(
        fmt::format("label_smoothing: expected a number from 0 to 1, found {}", smoothing));
  }
}

Index CrossEntropyLoss::counted(View<const TokenId, 1> targets) const {
  Index count = 0;
  for (Index n = 0; n < targets.dim(0); ++n) count += targets[n] == options_.ignore_index ? 0 : 1;
  return count;
}

// The targets with the kernels' own mark for ignored ones.
std::vector<TokenId> CrossEntropyLoss::checked(ConstMatrix logits,
                                               View<const TokenId, 1> targets) const {
  if (logits.dim(0) != targets.dim(0)) {
    throw ShapeError(
        fmt::format("CrossEntropyLoss: expected a target for each of {} rows, found {}",
                    logits.dim(0), targets.dim(0)));
  }
  std::vector<TokenId> own(static_cast<std::size_t>(targets.dim(0)));
  for (Index n = 0; n < targets.dim(0); ++n) {
    const TokenId id = targets[n];
    const bool ignored = id == options_.ignore_index;
    if (!ignored && (id < 0 || id >= logits.dim(1))) {
      throw ShapeError(
          fmt::format("CrossEntropyLoss: expected targets in [0, {}) or {}, found {} at {}",
                      logits.dim(1), options_.ignore_index, id, n));
    }
    own[static_cast<std::size_t>(n)] = ignored ? kernels::kIgnoreTarget : id;
  }
  return own;
}

LossSum CrossEntropyLoss::forward(const Runtime& run, ConstMatrix logits,
                                  View<const TokenId, 1> targets) const {
  const std::vector<TokenId> own = checked(logits, targets);
  std::vector<double> losses(own.size());
  kernels::cross_entropy_forward(run, logits, {own.data(), targets.shape()},
                                 {losses.data(), targets.shape()}, options_.label_smoothing);
  return sum(own, losses);
}

// dz = scale (softmax(z) − q)
LossSum CrossEntropyLoss::forward_backward(const Runtime& run, ConstMatrix logits,
                                           View<const TokenId, 1> targets, double scale,
                                           Matrix dlogits) const {
  const std::vector<TokenId> own = checked(logits, targets);
  check_shape("CrossEntropyLoss", "", "dlogits", dlogits, logits.dim(0), logits.dim(1));
  std::vector<double> losses(own.size());
  for (Index n = 0; n < logits.dim(0); ++n) {
    for (Index v = 0; v < logits.dim(1); ++v) dlogits[n][v] = logits[n][v];
  }
  kernels::cross_entropy_forward_backward(run, dlogits, {own.data(), targets.shape()}, scale,
                                          {losses.data(), targets.shape()},
                                          options_.label_smoothing);
  return sum(own, losses);
}

}  // namespace prenorm
