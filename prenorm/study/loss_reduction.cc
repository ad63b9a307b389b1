#include "prenorm/study/loss_reduction.h"

#include <algorithm>

namespace prenorm {
namespace {

using Values = reference::Tensor<double>;

double counted(std::span<const TokenId> targets) {
  return static_cast<double>(std::ranges::count_if(targets, [](TokenId id) { return id != -1; }));
}

}  // namespace

Values reduced_loss(const Values& losses, std::span<const TokenId> targets,
                    LossReduction reduction) {
  if (reduction == LossReduction::kNone) return losses;
  double sum = 0.0;
  for (const double loss : losses) sum += loss;
  return Values({1}, {reduction == LossReduction::kSum ? sum : sum / counted(targets)});
}

Values loss_gradient(const Values& gradient, std::span<const TokenId> targets,
                     LossReduction reduction) {
  if (gradient.absent() || reduction == LossReduction::kNone) return gradient;
  const double count = counted(targets);
  const bool mean = reduction == LossReduction::kMean && count > 0.0;
  return Values::filled({static_cast<Index>(targets.size())},
                        mean ? gradient[0] / count : gradient[0]);
}

}  // namespace prenorm
