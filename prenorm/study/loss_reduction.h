// What becomes of the losses of single tokens: their mean over the targets that count, their sum,
// or themselves (the `reduction` of torch.nn.functional.cross_entropy).
#pragma once
#include <span>

#include "prenorm/reference/tensor.h"
#include "prenorm/study/apply.h"

namespace prenorm {

// losses: [N], 0 where the target is −1; returns [1], or [N] for kNone. The mean over no target at
// all is NaN, as PyTorch's.
reference::Tensor<double> reduced_loss(const reference::Tensor<double>& losses,
                                       std::span<const TokenId> targets, LossReduction reduction);

// The gradient of each token's loss, [N], given that of the result; absent where that is absent.
reference::Tensor<double> loss_gradient(const reference::Tensor<double>& gradient,
                                        std::span<const TokenId> targets, LossReduction reduction);

}  // namespace prenorm
