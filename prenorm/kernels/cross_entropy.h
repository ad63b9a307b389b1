// Softmax cross-entropy on rows of logits: loss_n = log Σ_v exp z[n, v] − z[n, target_n].
// A target of −1 is ignored: its loss is 0 and its gradient row is zero.
#pragma once
#include "prenorm/kernels/runtime.h"
#include "prenorm/tensor/view.h"

namespace prenorm::kernels {

constexpr TokenId kIgnoreTarget = -1;

// losses[n] of each row. logits: [N, V]; targets: [N] in [0, V) or −1. Overwrites losses.
void cross_entropy_forward(const Runtime& run, ConstMatrix logits, View<const TokenId, 1> targets,
                           DoubleVector losses);

// losses[n], and logits overwritten by scale · d loss_n / d z[n, :] = scale (softmax − one-hot).
void cross_entropy_forward_backward(const Runtime& run, Matrix logits,
                                    View<const TokenId, 1> targets, double scale,
                                    DoubleVector losses);

// y = softmax of each row of x, computed as the loss does. x, y: [N, V]; may alias.
void softmax(const Runtime& run, ConstMatrix x, Matrix y);

}  // namespace prenorm::kernels
