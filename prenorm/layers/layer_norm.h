// Layer norm with affine parameters:  y = γ (x − μ) / sqrt(σ² + ε) + β  over the last axis
// (Ba, Kiros, Hinton 2016; torch.nn.LayerNorm).
#pragma once
#include "prenorm/layers/layer.h"

namespace prenorm {

class LayerNorm {
 public:
  struct Saved {
    DoubleVector mean, rstd;  // [N] each
  };

  // Registers NAME.weight [C] and, with `bias`, NAME.bias [C].
  LayerNorm(ParameterRegistry& parameters, std::string name, Index features, double eps = 1e-5,
            bool bias = true);

  Saved plan(Arena& arena, Index rows) const;

  // x, y: [N, C]. y may alias x only if backward() will not be called.
  void forward(const Runtime& run, ConstMatrix x, Matrix y, Saved& saved) const;
  // The same without leaving anything for backward().
  void forward(const Runtime& run, ConstMatrix x, Matrix y) const;

  // dy, x, dx: [N, C]; dx may alias dy. Overwrites dx; adds to the parameters' gradients.
  void backward(const Runtime& run, ConstMatrix dy, ConstMatrix x, const Saved& saved, Matrix dx) {
    backward(run, dy, x, saved, ConstMatrix(), dx);
  }
  // dx = residual + the gradient; residual may alias dx. Empty: 0.
  void backward(const Runtime& run, ConstMatrix dy, ConstMatrix x, const Saved& saved,
                ConstMatrix residual, Matrix dx);

 private:
  ConstVector bias() const { return bias_ == nullptr ? ConstVector() : bias_->vector(); }

  std::string name_;
  Index features_;
  double eps_;
  Parameter& weight_;  // [C]
  Parameter* bias_;    // [C] or none
};

}  // namespace prenorm
