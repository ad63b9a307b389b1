#include "prenorm/layers/cross_entropy_loss.h"

#include <fmt/format.h>

#include "prenorm/kernels/cross_entropy.h"

namespace prenorm {
namespace {

LossSum sum(const std::vector<TokenId>& targets, const std::vector<double>& losses,
            const std::vector<double>& smoothing) {
  LossSum total;
  for (std::size_t n = 0; n < targets.size(); ++n) {
    if (targets[n] == kernels::kIgnoreTarget) continue;
    total.loss += losses[n] + smoothing[n];
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

// What smoothing adds to each loss: with lse the row's log Σ exp z, and lse − z_t its plain loss,
// ε ((lse − mean_v z_v) − (lse − z_t)).
std::vector<double> CrossEntropyLoss::smoothing(ConstMatrix logits,
                                                const std::vector<TokenId>& targets) const {
  std::vector<double> added(targets.size(), 0.0);
  if (options_.label_smoothing == 0.0) return added;
  for (Index n = 0; n < logits.dim(0); ++n) {
    const TokenId target = targets[static_cast<std::size_t>(n)];
    if (target == kernels::kIgnoreTarget) continue;
    const ConstVector z = logits[n];
    double total = 0.0;
    for (Index v = 0; v < z.dim(0); ++v) total += static_cast<double>(z[v]);
    added[static_cast<std::size_t>(n)] =
        options_.label_smoothing *
        (static_cast<double>(z[target]) - total / static_cast<double>(z.dim(0)));
  }
  return added;
}

LossSum CrossEntropyLoss::forward(const Runtime& run, ConstMatrix logits,
                                  View<const TokenId, 1> targets) const {
  const std::vector<TokenId> own = checked(logits, targets);
  std::vector<double> losses(own.size());
  kernels::cross_entropy_forward(run, logits, {own.data(), targets.shape()},
                                 {losses.data(), targets.shape()});
  return sum(own, losses, smoothing(logits, own));
}

// dz = scale (softmax(z) − q):  the kernel's softmax − one-hot, and ε (one-hot − 1 / V).
LossSum CrossEntropyLoss::forward_backward(const Runtime& run, ConstMatrix logits,
                                           View<const TokenId, 1> targets, double scale,
                                           Matrix dlogits) const {
  const std::vector<TokenId> own = checked(logits, targets);
  const Index classes = logits.dim(1);
  check_shape("CrossEntropyLoss", "", "dlogits", dlogits, logits.dim(0), classes);
  const std::vector<double> added = smoothing(logits, own);
  std::vector<double> losses(own.size());
  for (Index n = 0; n < logits.dim(0); ++n) {
    for (Index v = 0; v < classes; ++v) dlogits[n][v] = logits[n][v];
  }
  kernels::cross_entropy_forward_backward(run, dlogits, {own.data(), targets.shape()}, scale,
                                          {losses.data(), targets.shape()});
  const LossSum total = sum(own, losses, added);
  if (options_.label_smoothing == 0.0) return total;
  const double mass = scale * options_.label_smoothing, share = mass / static_cast<double>(classes);
  for (Index n = 0; n < dlogits.dim(0); ++n) {
    const TokenId target = own[static_cast<std::size_t>(n)];
    if (target == kernels::kIgnoreTarget) continue;
    for (Index v = 0; v < classes; ++v) {
      const double one_hot = v == target ? mass : 0.0;
      dlogits[n][v] = static_cast<float>(static_cast<double>(dlogits[n][v]) + one_hot - share);
    }
  }
  return total;
}

}  // namespace prenorm
