// N trainers on N threads against one trainer alone.
#include "prenorm/train/ranked_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>
#include <string>
#include <vector>

#include "tests/tolerances.h"
#include "tests/train/local_ranks.h"
#include "tests/train/small_run.h"

namespace prenorm {
namespace {

using testing_support::in_ranks;
using testing_support::LocalRanks;
using testing_support::small_config;
using testing_support::small_options;
using testing_support::small_text;

// What a run leaves: weights and moments, and what each of its lines says.
struct Outcome {
  std::vector<float> weights, first, second;
  std::vector<double> numbers;
  bool operator==(const Outcome&) const = default;
};

struct Setting {
  std::string name;
  GptConfig config = small_config();
  TrainOptions options = small_options();
};

struct RankRun {
  RankRun(const Setting& setting, TrainRanks ranks, TrainCallbacks callbacks = {})
      : run({.threads = 1}), text(small_text(700)), model(setting.config) {
    model.initialize(setting.options.seed);
    const std::span<const TokenId> all = text;
    callbacks.on_progress = [this](const Progress& p) {
      for (const auto& number : {p.loss, p.val_loss, p.grad_norm}) {
        outcome.numbers.push_back(number.value_or(-1.0));
      }
    };
    callbacks.on_save = [this](SaveReason) {
      const AdamW& optimizer = trainer->optimizer();
      outcome.first.clear();
      outcome.second.clear();
      for (std::size_t p = 0; p < model.parameters().count(); ++p) {
        const auto m = optimizer.first_moment(p), v = optimizer.second_moment(p);
        outcome.first.insert(outcome.first.end(), m.begin(), m.end());
        outcome.second.insert(outcome.second.end(), v.begin(), v.end());
      }
    };
    trainer = std::make_unique<Trainer>(run, model, TrainData{all.first(600), all.subspan(600)},
                                        setting.options, std::move(callbacks), ranks);
  }
  const Outcome& finish() {
    trainer->train();
    const auto values = model.parameters().values();
    outcome.weights.assign(values.begin(), values.end());
    for (const float g : model.parameters().grads()) EXPECT_EQ(g, 0.0f);
    return outcome;
  }

  Runtime run;
  std::vector<TokenId> text;
  Gpt model;
  std::unique_ptr<Trainer> trainer;
  Outcome outcome;
};

Setting setting(std::string name, Index batch, Index micro_batches) {
  Setting s{.name = std::move(name)};
  s.options.max_iters = 6;
  s.options.eval_interval = 3;
  s.options.log_interval = 1;
  s.options.batch_size = batch;  // of 16 tokens each: a piece is a multiple of 16 of them
  s.options.gradient_accumulation_steps = micro_batches;
  return s;
}

std::vector<Setting> settings() {
  std::vector<Setting> all;
  for (Index micro_batches : {1, 2, 3, 4}) {
    all.push_back(setting("accumulation " + std::to_string(micro_batches), 32, micro_batches));
  }
  all.push_back(setting("a micro-batch that cannot be cut", 5, 3));
  all.push_back(setting("fewer pieces than ranks", 7, 1));
  all.push_back(setting("a last piece that is shorter", 41, 2));
  const auto vary = [&](const char* name, auto change) {
    all.push_back(setting(name, 33, 3));
    change(all.back().config);
  };
  vary("dropout", [](GptConfig& c) { c.attn_pdrop = c.resid_pdrop = c.embd_pdrop = 0.1; });
  vary("untied", [](GptConfig& c) { c.tie_word_embeddings = false; });
  vary("post-norm", [](GptConfig& c) { c.norm = NormPlacement::kPost; });
  vary("no biases", [](GptConfig& c) { c.bias = false; });
  return all;
}

TEST(RankedStep, any_number_of_ranks_gives_the_bits_of_one_alone) {
  for (const Setting& s : settings()) {
    RankRun alone(s, {});
    const Outcome expected = alone.finish();
    ASSERT_FALSE(expected.first.empty());
    for (int size : {1, 2, 3, 4}) {
      in_ranks(size, [&](Ranks& ranks) {
        RankRun run(s, {&ranks, Reduce::kExact});
        const Outcome& outcome = run.finish();
        EXPECT_EQ(outcome.weights, expected.weights) << s.name << ", ranks " << size;
        EXPECT_EQ(outcome.numbers, expected.numbers) << s.name << ", ranks " << size;
        if (ranks.rank() > 0) {
          EXPECT_TRUE(outcome.first.empty()) << "only the first rank saves";
        } else {
          EXPECT_EQ(outcome.first, expected.first) << s.name << ", ranks " << size;
          EXPECT_EQ(outcome.second, expected.second) << s.name << ", ranks " << size;
        }
      });
    }
  }
}

TEST(RankedStep, the_fast_sum_is_the_same_up_to_rounding) {
  const Setting s = setting("", 33, 3);
  RankRun alone(s, {});
  const Outcome expected = alone.finish();
  for (int size : {1, 2, 3, 4}) {
    in_ranks(size, [&](Ranks& ranks) {
      RankRun run(s, {&ranks, Reduce::kFast});
      const Outcome& outcome = run.finish();
      for (std::size_t i = 0; i < expected.numbers.size(); ++i) {
        EXPECT_NEAR(outcome.numbers[i], expected.numbers[i], tolerance::kOtherSumOrder) << i;
      }
    });
  }
}

TEST(RankedStep, each_rank_keeps_moments_of_its_own_part_alone) {
  Setting s = setting("", 32, 1);
  s.config.n_embd = 128;  // 400,000 parameters: several chunks
  s.config.n_inner = 512;
  std::mutex mutex;
  std::size_t sum = 0, most = 0, whole = 0;
  in_ranks(3, [&](Ranks& ranks) {
    RankRun run(s, {&ranks, Reduce::kExact});
    run.trainer->step();
    const std::lock_guard lock(mutex);
    const std::size_t bytes = run.trainer->optimizer().moment_bytes();
    whole = 2 * run.model.parameters().values().size_bytes();
    sum += bytes;
    most = std::max(most, bytes);
  });
  constexpr std::size_t kPages = 6 * 4096;
  EXPECT_LE(sum, whole + kPages);
  EXPECT_LE(most, whole / 3 + 2 * 4 * 65536);
}

TEST(RankedStep, a_step_that_is_not_finite_is_skipped_on_all_ranks) {
  const Setting s = setting("", 32, 2);
  for (Index bad = 0; bad < 3; ++bad) {
    in_ranks(3, [&](Ranks& ranks) {
      RankRun run(s, {&ranks, Reduce::kExact});
      run.trainer->step();
      const auto values = run.model.parameters().values();
      const std::vector<float> before(values.begin(), values.end());
      // A rank alone has the number: in its gradient of a step that it begins.
      if (ranks.rank() == 0 && bad == 0) {
        run.model.parameters().grads()[5] = std::numeric_limits<float>::quiet_NaN();
      }
      // Or all of them: weights that make the loss overflow.
      if (bad == 1) values[0] = std::numeric_limits<float>::infinity();
      const StepResult done = run.trainer->step();
      EXPECT_EQ(done.skipped, bad < 2);
      if (bad == 0) {
        EXPECT_TRUE(std::ranges::equal(values, before));
      }
      EXPECT_EQ(run.trainer->position().skipped_steps, bad < 2 ? 1 : 0);
      for (const float g : run.model.parameters().grads()) ASSERT_EQ(g, 0.0f);
    });
  }
}

TEST(RankedStep, a_stop_on_one_rank_stops_all_after_the_same_step) {
  const Setting s = setting("", 32, 2);
  for (int one = 0; one < 3; ++one) {
    in_ranks(3, [&](Ranks& ranks) {
      std::unique_ptr<RankRun> run;
      TrainCallbacks callbacks;
      callbacks.should_stop = [&] {
        return ranks.rank() == one && run->trainer->position().iter >= 2;
      };
      run = std::make_unique<RankRun>(s, TrainRanks{&ranks, Reduce::kExact}, callbacks);
      const TrainResult result = run->trainer->train();
      EXPECT_TRUE(result.interrupted);
      EXPECT_EQ(result.last.iter, 2);
    });
  }
}

TEST(RankedStep, a_run_goes_on_with_another_number_of_ranks) {
  Setting s = setting("", 32, 2);
  RankRun alone(s, {});
  const Outcome expected = alone.finish();
  // Three steps on two ranks, the rest on three, with the moments of the first.
  Outcome half;
  TrainingPosition position;
  Setting begun = s;
  begun.options.max_iters = 3;
  begun.options.lr_decay_iters = s.options.decay_steps();
  begun.options.warmup_iters = s.options.warmup_steps();
  std::mutex mutex;
  in_ranks(2, [&](Ranks& ranks) {
    RankRun run(begun, {&ranks, Reduce::kExact});
    run.finish();
    const std::lock_guard lock(mutex);
    if (ranks.rank() == 0) {
      half = run.outcome;
      position = run.trainer->position();
    }
  });
  in_ranks(3, [&](Ranks& ranks) {
    RankRun run(s, {&ranks, Reduce::kExact});
    std::ranges::copy(half.weights, run.model.parameters().values().begin());
    AdamW& optimizer = run.trainer->optimizer();
    optimizer.assemble();
    std::size_t at = 0;
    for (std::size_t p = 0; p < run.model.parameters().count(); ++p) {
      const auto m = optimizer.first_moment(p), v = optimizer.second_moment(p);
      std::copy_n(half.first.begin() + static_cast<std::ptrdiff_t>(at), m.size(), m.begin());
      std::copy_n(half.second.begin() + static_cast<std::ptrdiff_t>(at), v.size(), v.begin());
      at += m.size();
    }
    optimizer.keep_own();
    optimizer.set_steps(3);
    run.trainer->set_position(position);
    EXPECT_EQ(run.finish().weights, expected.weights);
  });
}

}  // namespace
}  // namespace prenorm
