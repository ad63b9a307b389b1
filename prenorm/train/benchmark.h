// Times whole training steps (forward, loss, backward, clip to 1, AdamW) on random tokens and fresh
// weights: what a step costs on this machine, apart from any data.
#pragma once
#include <vector>

#include "prenorm/kernels/products.h"
#include "prenorm/kernels/profile.h"
#include "prenorm/model/gpt_config.h"

namespace prenorm {

struct StepTimes {
  std::vector<double> seconds;    // of each step, in order; the warm-up steps are not among them
  double flops = 0.0;             // of a step
  Index tokens = 0;               // of a step
  double waited = 0.0;            // of all steps: for other threads, if profiled
  std::size_t planned_bytes = 0;  // the peak memory that the plan foresees

  double min() const;
  double median() const;
};

// Steps of [batch, block_size] tokens for about `seconds`, and at least four; their parts are added
// to `profile` if there is one.
StepTimes time_training_steps(const Runtime& run, const GptConfig& config, Index batch,
                              double seconds, Products products = Products::kFloat32,
                              Profile* profile = nullptr);

}  // namespace prenorm
