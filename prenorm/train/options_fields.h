// The fields of TrainOptions by name, for whatever reads, writes or compares them.
#pragma once
#include "prenorm/train/options.h"

namespace prenorm {

enum class OnResume { kMayChange, kMustStay };

// visit(name, field, OnResume) for each field, const or not. The step's windows are those of
// (seed, step, sequence): an option that would give a step other windows must stay, and so
// must those that the first weights and the bits of each step come from.
template <typename Options, typename Visit>
void visit_train_options(Options& options, Visit&& visit) {
  constexpr OnResume kMay = OnResume::kMayChange, kStay = OnResume::kMustStay;
  visit("batch_size", options.batch_size, kStay);
  visit("gradient_accumulation_steps", options.gradient_accumulation_steps, kStay);
  visit("val_fraction", options.val_fraction, kStay);
  visit("seed", options.seed, kStay);
  visit("init", options.init, kStay);
  visit("dtype", options.dtype, kStay);
  visit("learning_rate", options.learning_rate, kMay);
  visit("min_lr", options.min_lr, kMay);
  visit("warmup_iters", options.warmup_iters, kMay);
  visit("lr_decay_iters", options.lr_decay_iters, kMay);
  visit("lr_schedule", options.lr_schedule, kMay);
  visit("max_iters", options.max_iters, kMay);
  visit("weight_decay", options.weight_decay, kMay);
  visit("beta1", options.beta1, kMay);
  visit("beta2", options.beta2, kMay);
  visit("adam_eps", options.adam_eps, kMay);
  visit("grad_clip", options.grad_clip, kMay);
  visit("eval_interval", options.eval_interval, kMay);
  visit("eval_iters", options.eval_iters, kMay);
  visit("log_interval", options.log_interval, kMay);
  visit("save_interval", options.save_interval, kMay);
  visit("save_every_minutes", options.save_every_minutes, kMay);
  visit("save_best", options.save_best, kMay);
  visit("keep", options.keep, kMay);
  visit("patience", options.patience, kMay);
  visit("max_bad_steps", options.max_bad_steps, kMay);
  visit("watch", options.watch, kMay);
  visit("watch_interval", options.watch_interval, kMay);
}

}  // namespace prenorm
