// What a run will cost, told before its first step.
#pragma once
#include <cstddef>

#include "prenorm/model/gpt.h"
#include "prenorm/train/data.h"
#include "prenorm/train/options.h"

namespace prenorm {

// Bytes, by what they are for. total() is to be met by the process's peak resident memory.
struct MemoryPlan {
  std::size_t parameters = 0, gradients = 0, moments = 0;
  std::size_t workspace = 0;  // activations of one micro-batch
  std::size_t scratch = 0;    // of the kernels
  std::size_t data = 0;       // tokens of both splits
  std::size_t process = 0;    // program, libraries, thread stacks
  std::size_t total() const;
};

struct TrainingPlan {
  Index parameters = 0;  // a tied head counts once
  Index tokens_per_step = 0;
  double flops_per_step = 0.0;
  MemoryPlan memory;
  double seconds_per_step = 0.0;
  double seconds = 0.0;  // of the whole run, evaluations included
};

// Multiplications and additions of forward and backward over [batch, time] tokens: 6 for each
// matrix element and token (the vocabulary projection included, embeddings and vectors not), and
// 6 n_layer B T² C for causal attention.
double training_flops(const GptConfig& config, Index batch, Index time);

// The bytes of a run over `tokens` tokens, without running anything. `scratch` is what the
// kernels hold (Runtime::scratch_bytes() after a pass).
MemoryPlan plan_memory(const Gpt& model, Index batch_size, Index tokens, std::size_t scratch);

// What the weights' matrices, gradients and moments take at the least, before there is a model.
std::size_t least_training_memory(const GptConfig& config);

// The plan of a run, with the model's products set to its options'. The time comes from passes over
// some of the run's own tokens, about a second in all; the weights do not change and the gradients
// are left zero.
TrainingPlan plan_training(const Runtime& run, Gpt& model, const TrainData& data,
                           const TrainOptions& options);

}  // namespace prenorm
