// The optimizer of a model's parameters: AdamW with clipping by the global gradient norm.
//
//   AdamW optimizer(model.parameters(), {.beta2 = 0.99, .grad_clip = 1.0});
//   const AdamW::Result result = optimizer.step(run, learning_rate);
//
// On several machines each owns a part of the parameters, keeps moments for that part alone and
// updates it (ZeRO stage 1: Rajbhandari et al. 2020); parts are whole chunks of the gradient norm's
// sum, so that the norm has the same bits however they are dealt.
#pragma once
#include <span>
#include <vector>

#include "prenorm/kernels/adamw.h"
#include "prenorm/kernels/runtime.h"
#include "prenorm/tensor/buffer.h"
#include "prenorm/tensor/parameter.h"
#include "prenorm/train/parameter_chunks.h"

namespace prenorm {

// torch.nn.utils.clip_grad_norm_'s factor: min(1, max_norm / (norm + 1e-6)); 1 for max_norm 0.
double clip_factor(double norm, double max_norm);

class AdamW {
 public:
  struct Options {
    double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.01, grad_clip = 0.0;
  };

  // Moments start at zero. The registry must have gradients and outlive the optimizer. Owns all of
  // it, or part `part` of `parts`.
  AdamW(ParameterRegistry& parameters, const Options& options, int part = 0, int parts = 1);

  struct Result {
    double grad_norm = 0.0;  // before clipping
    bool applied = false;    // false: not finite, or beyond 1e19; only the gradients were cleared
  };
  // Updates every parameter with its gradient and clears the gradients. Weight decay touches only
  // parameters flagged so: tensors of two axes, which leaves out biases and layer norms. Requires:
  // this optimizer owns all.
  Result step(const Runtime& run, double learning_rate);
  // The root of Σ g² over all parameters, in double.
  double grad_norm(const Runtime& run) const;

  // The two halves of step(), for those who own a part. Σ g² of each owned chunk, into
  // chunks().count(part) doubles:
  void squares(const Runtime& run, std::span<double> sums) const;
  // and the update of what is owned, given those of all chunks. Clears only the owned gradients.
  Result update(const Runtime& run, double learning_rate, std::span<const double> squares);

  const ParameterChunks& chunks() const { return chunks_; }
  int part() const { return part_; }
  int parts() const { return parts_; }

  // Updates applied so far: t of the bias correction.
  Index steps() const { return steps_; }
  void set_steps(Index steps) { steps_ = steps; }

  // Moments of one parameter, by its place in the registry; as long as its value. Of an optimizer
  // that owns a part they are there between assemble(), which makes room for all and puts the owned
  // ones in their places, and keep_own(), which takes those back and gives up the room.
  std::span<float> first_moment(std::size_t parameter) const;
  std::span<float> second_moment(std::size_t parameter) const;
  void assemble();
  void keep_own();
  // Both moments of the owned part, and, after assemble(), of all, in the registry's layout.
  std::span<float> own_first() const { return first_.floats().first(own_size()); }
  std::span<float> own_second() const { return second_.floats().first(own_size()); }
  std::span<float> all_first() const;
  std::span<float> all_second() const;
  std::size_t moment_bytes() const;
  const ParameterRegistry& parameters() const { return parameters_; }

 private:
  std::size_t own_begin() const { return chunks_.begin(part_); }
  std::size_t own_size() const { return chunks_.end(part_) - own_begin(); }
  bool owns_all() const { return parts_ == 1; }
  void cut();

  ParameterRegistry& parameters_;
  Options options_;
  int part_, parts_;
  ParameterChunks chunks_;
  std::vector<double> sums_;       // of step()
  Buffer first_, second_;          // of the owned part
  Buffer all_first_, all_second_;  // between assemble() and keep_own()
  // Of the owned part, in pieces for the threads.
  std::vector<kernels::AdamWStretch> stretches_;
  std::vector<std::span<const float>> grad_chunks_;
  Index steps_ = 0;
};

}  // namespace prenorm
