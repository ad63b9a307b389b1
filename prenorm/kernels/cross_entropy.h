// Softmax cross-entropy on rows of logits: loss_n = log Σ_v exp z[n, v] − z[n, target_n].
// A target of −1 is ignored: its loss is 0 and its gradient row is zero.
//
// With label smoothing ε (Szegedy et al. 2016; torch's label_smoothing) the target's share of the
// probability is 1 − ε and every class has ε/V more: loss_n + ε (z[n, target_n] − mean_v z[n, v]).
#pragma once
#include "prenorm/kernels/runtime.h"
#include "prenorm/tensor/view.h"

namespace prenorm::kernels {

constexpr TokenId kIgnoreTarget = -1;

// losses[n] of each row. logits: [N, V]; targets: [N] in [0, V) or −1. Overwrites losses.
void cross_entropy_forward(const Runtime& run, ConstMatrix logits, View<const TokenId, 1> targets,
                           DoubleVector losses, double label_smoothing = 0.0);

// losses[n], and logits overwritten by scale · d loss_n / d z[n, :] = scale (softmax − one-hot).
void cross_entropy_forward_backward(const Runtime& run, Matrix logits,
                                    View<const TokenId, 1> targets, double scale,
                                    DoubleVector losses, double label_smoothing = 0.0);

// y = softmax of each row of x, computed as the loss does. x, y: [N, V]; may alias.
void softmax(const Runtime& run, ConstMatrix x, Matrix y);

}  // namespace prenorm::kernels
