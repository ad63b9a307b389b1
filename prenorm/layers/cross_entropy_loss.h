// Softmax cross-entropy of given logits, as torch.nn.CrossEntropyLoss:
//
//   loss_n = −Σ_v q_nv log softmax(z_n)_v      q_nv = (1 − ε) [v = target_n] + ε / V
//
//   const CrossEntropyLoss loss({.ignore_index = -1, .label_smoothing = 0.1});
//   const double mean = loss.forward(run, logits, targets).mean();
//
// For models that make their logits themselves; Gpt's loss is CrossEntropyHead, which never has all
// logits in memory. A row whose target is ignore_index has the loss 0 and the gradient 0 and does
// not count: where no row counts, the mean is NaN, as PyTorch's.
#pragma once
#include <vector>

#include "prenorm/layers/cross_entropy_head.h"

namespace prenorm {

class CrossEntropyLoss {
 public:
  struct Options {
    TokenId ignore_index = -100;   // a value of a target, not a position
    double label_smoothing = 0.0;  // ε, from 0 to 1: spread over all V classes, the target too
  };

  // Throws ConfigError.
  explicit CrossEntropyLoss(const Options& options);
  CrossEntropyLoss() : CrossEntropyLoss(Options()) {}

  // logits: [N, V]; targets: [N] in [0, V) or ignore_index. Throws ShapeError.
  LossSum forward(const Runtime& run, ConstMatrix logits, View<const TokenId, 1> targets) const;

  // The same, and dlogits = scale · d(Σ loss)/dlogits: with 1 / counted(targets) as scale, the
  // gradient of the mean. dlogits: [N, V], may alias logits. Overwrites it.
  LossSum forward_backward(const Runtime& run, ConstMatrix logits, View<const TokenId, 1> targets,
                           double scale, Matrix dlogits) const;

  // How many targets are not ignored.
  Index counted(View<const TokenId, 1> targets) const;

 private:
  std::vector<TokenId> checked(ConstMatrix logits, View<const TokenId, 1> targets) const;

  Options options_;
};

}  // namespace prenorm
