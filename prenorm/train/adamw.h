// The optimizer of a model's parameters: AdamW with clipping by the global gradient norm.
#pragma once
#include <span>
#include <vector>

#include "prenorm/kernels/runtime.h"
#include "prenorm/tensor/buffer.h"
#include "prenorm/tensor/parameter.h"

namespace prenorm {

// torch.nn.utils.clip_grad_norm_'s factor: min(1, max_norm / (norm + 1e-6)); 1 for max_norm 0.
double clip_factor(double norm, double max_norm);

class AdamW {
 public:
  struct Options {
    double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.01, grad_clip = 0.0;
  };

  // Moments start at zero. The registry must have gradients and outlive the optimizer.
  AdamW(ParameterRegistry& parameters, const Options& options);

  struct Result {
    double grad_norm = 0.0;  // before clipping
    bool applied = false;    // false: not finite, or beyond 1e19; only the gradients were cleared
  };
  // Updates every parameter with its gradient and clears the gradients. Weight decay touches only
  // parameters flagged so: tensors of two axes, which leaves out biases and layer norms.
  Result step(const Runtime& run, double learning_rate);

  // Σ over parameters, in registry order, of Σ g² in double; its root.
  double grad_norm(const Runtime& run) const;

  // Updates applied so far: t of the bias correction.
  Index steps() const { return steps_; }
  void set_steps(Index steps) { steps_ = steps; }

  // Moments of one parameter, by its place in the registry; as long as its value.
  std::span<float> first_moment(std::size_t parameter) const;
  std::span<float> second_moment(std::size_t parameter) const;
  const ParameterRegistry& parameters() const { return parameters_; }

 private:
  ParameterRegistry& parameters_;
  Options options_;
  Buffer first_, second_;
  // Of each parameter in the buffers, in floats: the registry's own layout.
  std::vector<std::size_t> offsets_, sizes_;
  Index steps_ = 0;
};

}  // namespace prenorm
