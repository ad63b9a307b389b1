// What a training run is asked to do. Names are nanoGPT's; defaults suit a small model on a CPU.
//
//   TrainOptions options;
//   options.max_iters = 500;
//   options.validate();
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

#include "prenorm/base/index.h"
#include "prenorm/base/name_table.h"
#include "prenorm/kernels/products.h"
#include "prenorm/model/initialize.h"

namespace prenorm {

enum class LrSchedule { kCosine, kLinear, kConstant };

// Name and value of each schedule, as flags and files spell them.
inline constexpr NameTable<LrSchedule, 3> kLrSchedules{{
    {"cosine", LrSchedule::kCosine},
    {"linear", LrSchedule::kLinear},
    {"constant", LrSchedule::kConstant},
}};
std::string_view to_string(LrSchedule schedule);
// Throws ConfigError naming the known schedules.
LrSchedule lr_schedule_from_string(std::string_view name);

struct TrainOptions {
  // Data. A step sees batch_size * gradient_accumulation_steps windows of the model's block_size.
  Index batch_size = 12;
  Index gradient_accumulation_steps = 1;
  double val_fraction = 0.1;  // the text's last part, held out (CorpusOptions); 0: none
  std::uint64_t seed = 1337;  // of the weights, the batch order and dropout
  Initialization init = Initialization::kPrenorm;  // of the weights, before the first step
  Products dtype = Products::kFloat32;  // what products are computed in; a step's bits depend on it

  // Learning rate: linear warm-up, then the schedule down to min_lr at lr_decay_iters.
  double learning_rate = 1e-3;
  std::optional<double> min_lr;         // default: learning_rate / 10
  std::optional<Index> warmup_iters;    // default: max_iters / 20, at most 100
  std::optional<Index> lr_decay_iters;  // default: max_iters
  LrSchedule lr_schedule = LrSchedule::kCosine;
  Index max_iters = 2000;

  // AdamW.
  double weight_decay = 0.1;
  double beta1 = 0.9;
  double beta2 = 0.99;
  double adam_eps = 1e-8;
  double grad_clip = 1.0;  // largest gradient norm; 0: no clipping

  // Steps between two evaluations (0: only at the end), progress lines and saves.
  Index eval_interval = 250;
  // Batches of held-out windows in an evaluation, the same each time, spread evenly over the held
  // out text; 0: all of it, windows side by side.
  Index eval_iters = 50;
  Index log_interval = 10;
  Index save_interval = 0;          // 0: after each evaluation
  double save_every_minutes = 0.0;  // a save as well when the last one is so old; 0: none
  bool save_best = true;            // also where an evaluation finds the lowest validation loss
  Index keep = 2;                   // the newest saved states that are kept
  Index patience = 0;        // evaluations without a lower loss before training ends; 0: no end
  Index max_bad_steps = 10;  // skipped steps in a row before training gives up
  bool watch = false;        // the blocks' health (watch.h)
  Index watch_interval = 0;  // steps between two records of it; 0: log_interval

  // The defaults that depend on other options, filled in.
  double min_learning_rate() const { return min_lr.value_or(learning_rate / 10); }
  Index warmup_steps() const {
    return warmup_iters.value_or(max_iters / 20 < 100 ? max_iters / 20 : 100);
  }
  Index watch_steps() const {
    return !watch ? 0 : watch_interval > 0 ? watch_interval : log_interval;
  }
  Index decay_steps() const { return lr_decay_iters.value_or(max_iters); }
  Index sequences_per_step() const { return batch_size * gradient_accumulation_steps; }

  // Throws ConfigError naming the option, what was expected and what was found.
  void validate() const;
};

}  // namespace prenorm
