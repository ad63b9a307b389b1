// A model and a text small enough to train many times in a test.
#pragma once
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "prenorm/model/gpt.h"
#include "prenorm/train/trainer.h"
#include "tests/config_of.h"
#include "tests/temporary_folder.h"

namespace prenorm::testing_support {

inline GptConfig small_config() { return config_of(2, 2, 16, 16, 11); }

inline TrainOptions small_options() {
  TrainOptions options;
  options.batch_size = 4;
  options.learning_rate = 3e-3;
  options.warmup_iters = 2;
  options.max_iters = 20;
  options.eval_interval = 8;
  options.eval_iters = 0;
  options.log_interval = 5;
  options.seed = 42;
  return options;
}

// Counts up modulo 11, with a jump now and then.
inline std::vector<TokenId> small_text(Index tokens) {
  std::vector<TokenId> out;
  for (Index i = 0; i < tokens; ++i) out.push_back(static_cast<TokenId>((i + i / 37 * 5) % 11));
  return out;
}

// All that a run needs, alive together.
struct SmallRun {
  explicit SmallRun(const TrainOptions& options = small_options(), TrainCallbacks callbacks = {},
                    const GptConfig& config = small_config(), int threads = 1)
      : run({.threads = threads}), text(small_text(700)), model(config) {
    model.initialize(options.seed);
    const std::span<const TokenId> all = text;
    trainer = std::make_unique<Trainer>(run, model, TrainData{all.first(600), all.subspan(600)},
                                        options, std::move(callbacks));
  }
  std::vector<float> weights() const {
    return {model.parameters().values().begin(), model.parameters().values().end()};
  }

  Runtime run;
  std::vector<TokenId> text;
  Gpt model;
  std::unique_ptr<Trainer> trainer;
};

using prenorm::TemporaryFolder;

}  // namespace prenorm::testing_support
