// The flags of `prenorm train`: nanoGPT's names, bound to the library's options.
#pragma once
#include <string>
#include <vector>

#include "prenorm/cli/common.h"
#include "prenorm/cli/option_table.h"
#include "prenorm/cli/products_flags.h"
#include "prenorm/model/gpt_config.h"
#include "prenorm/train/options.h"
#include "prenorm/train/ranked_step.h"

namespace prenorm::cli {

struct TrainFlags {
  GptConfig model;
  TrainOptions train;
  std::vector<std::string> data;
  std::string tokenizer = "byte";
  std::string out_dir = "run";
  bool resume = false, force = false;
  // Of several ranks.
  Reduce reduce = Reduce::kExact;
  double rank_timeout = 300.0;
  // Throws ConfigError for what only one rank alone can do.
  void check_ranks() const;
  // Throws ConfigError for an order of sums without products in bfloat16. Of a run that goes on,
  // call after rebase().
  void check_dtype() const;
  // The order of sums in bfloat16 was left to this machine: ranks have to agree on one.
  bool sums_are_open() const { return sums_are_open_; }
  CommonFlags common;

  TrainFlags();
  void declare(OptionTable& table);
  // Fills `model` and `train` from the flags whose variables are not those structures' own, and
  // checks both. Throws ConfigError. The vocabulary is not known yet.
  void finish(const OptionTable& table);
  // Starts from what a saved run was made with, under the flags that were given.
  void rebase(const OptionTable& table, const GptConfig& saved_model,
              const TrainOptions& saved_train);

 private:
  void declare_model(OptionTable& table);
  void declare_training(OptionTable& table);
  void declare_optimizer(OptionTable& table);
  void declare_ranks(OptionTable& table);
  void finish_dtype(const OptionTable& table);

  ProductsFlags products_;
  bool sums_are_open_ = false;
  std::string reduce_ = "exact";
  std::string norm_ = "pre", activation_ = "gelu-tanh", lr_schedule_ = "cosine", init_ = "prenorm";
  double dropout_ = 0.0;
  double min_lr_ = 0.0;
  Index warmup_iters_ = 0, lr_decay_iters_ = 0;
};

}  // namespace prenorm::cli
