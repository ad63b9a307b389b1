#include "prenorm/train/trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "prenorm/base/error.h"
#include "tests/train/small_run.h"

namespace prenorm {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing_support::small_config;
using testing_support::small_options;
using testing_support::small_text;
using testing_support::SmallRun;

std::vector<float> trained(const TrainOptions& options, const GptConfig& config, int threads = 1) {
  SmallRun run(options, {}, config, threads);
  run.trainer->train();
  return run.weights();
}

TEST(Trainer, learns_a_text_that_can_be_learnt) {
  TrainOptions options = small_options();
  options.max_iters = 300;
  SmallRun run(options);
  const double before = *run.trainer->evaluate();
  EXPECT_NEAR(before, std::log(11.0), 0.15);
  const TrainResult result = run.trainer->train();
  EXPECT_FALSE(result.interrupted);
  EXPECT_LT(*result.last.val_loss, 0.7);
  EXPECT_EQ(result.tokens, 300 * 4 * 16);
}

TEST(Trainer, bits_do_not_depend_on_threads) {
  GptConfig config = small_config();
  config.attn_pdrop = config.resid_pdrop = config.embd_pdrop = 0.1;
  const std::vector<float> one = trained(small_options(), config, 1);
  EXPECT_EQ(trained(small_options(), config, 2), one);
  EXPECT_EQ(trained(small_options(), config, 3), one);
}

TEST(Trainer, bits_do_not_depend_on_how_a_step_is_split_into_micro_batches) {
  GptConfig config = small_config();
  config.attn_pdrop = config.resid_pdrop = config.embd_pdrop = 0.1;
  TrainOptions options = small_options();
  options.max_iters = 6;
  options.batch_size = 64;  // 4 · 256 tokens
  const std::vector<float> whole = trained(options, config);
  options.batch_size = 16;
  options.gradient_accumulation_steps = 4;
  EXPECT_EQ(trained(options, config), whole);
}

TEST(Trainer, the_seed_changes_weights_and_order) {
  TrainOptions options = small_options();
  const std::vector<float> one = trained(options, small_config());
  EXPECT_EQ(trained(options, small_config()), one);
  ++options.seed;
  EXPECT_NE(trained(options, small_config()), one);
}

struct Record {
  std::vector<Progress> lines;
  std::vector<Index> saved;
  std::vector<SaveReason> reasons;
  std::vector<SkippedStep> skips;
};

TrainCallbacks recording(Record& record, const std::unique_ptr<Trainer>& trainer) {
  return {.on_progress = [&](const Progress& line) { record.lines.push_back(line); },
          .on_save =
              [&](SaveReason reason) {
                record.reasons.push_back(reason);
                record.saved.push_back(trainer->position().iter);
              },
          .on_skip = [&](const SkippedStep& skip) { record.skips.push_back(skip); },
          .should_stop = {}};
}

// What a whole training of small_run.h's model did.
Record record_of(const TrainOptions& options) {
  Record record;
  SmallRun run;
  run.trainer = std::make_unique<Trainer>(run.run, run.model, run.trainer->data(), options,
                                          recording(record, run.trainer));
  run.trainer->train();
  return record;
}

TEST(Trainer, reports_evaluates_and_saves_when_asked_to) {
  const Record record = record_of(small_options());
  std::vector<Index> lines, evaluated;
  for (const Progress& line : record.lines) {
    lines.push_back(line.iter);
    if (line.val_loss) evaluated.push_back(line.iter);
    EXPECT_EQ(line.max_iters, 20);
    EXPECT_EQ(line.loss.has_value(), line.iter > 0);
  }
  EXPECT_THAT(lines, ElementsAre(0, 5, 8, 10, 15, 16, 20));
  EXPECT_THAT(evaluated, ElementsAre(0, 8, 16, 20));
  EXPECT_THAT(record.saved, ElementsAre(8, 16, 20));
  EXPECT_EQ(record.reasons.back(), SaveReason::kFinished);
  EXPECT_EQ(record.lines.back().eta_seconds, 0.0);
  EXPECT_GT(record.lines[1].tokens_per_second, 0.0);
  EXPECT_GT(record.lines[1].eta_seconds, 0.0);
}

TEST(Trainer, the_loss_of_a_line_is_the_mean_since_the_line_before) {
  const Record record = record_of(small_options());
  SmallRun again;
  double sum = 0;
  for (int i = 0; i < 5; ++i) sum += again.trainer->step().loss;
  EXPECT_EQ(record.lines[1].iter, 5);
  EXPECT_EQ(*record.lines[1].loss, sum / 5);
}

TEST(Trainer, a_stop_finishes_the_step_saves_and_says_so) {
  Record record;
  Index polls = 0;
  SmallRun run;
  TrainCallbacks callbacks = recording(record, run.trainer);
  callbacks.should_stop = [&] { return run.trainer->position().iter >= 3 && ++polls > 0; };
  run.trainer = std::make_unique<Trainer>(run.run, run.model, run.trainer->data(), small_options(),
                                          callbacks);
  const TrainResult result = run.trainer->train();
  EXPECT_TRUE(result.interrupted);
  EXPECT_EQ(result.last.iter, 3);
  EXPECT_THAT(record.saved, ElementsAre(3));
  EXPECT_THAT(record.reasons, ElementsAre(SaveReason::kInterrupted));
  for (const float g : run.model.parameters().grads()) ASSERT_EQ(g, 0.0f);
}

TEST(Trainer, a_gradient_that_is_not_finite_skips_one_step_and_touches_nothing) {
  SmallRun run;
  run.trainer->step();
  const std::vector<float> before = run.weights();
  run.model.parameters().grads()[5] = std::numeric_limits<float>::quiet_NaN();
  const StepResult bad = run.trainer->step();
  EXPECT_TRUE(bad.skipped);
  EXPECT_TRUE(std::isfinite(bad.loss));
  EXPECT_EQ(run.weights(), before);
  EXPECT_EQ(run.trainer->position().skipped_steps, 1);
  EXPECT_EQ(run.trainer->position().iter, 2);
  EXPECT_EQ(run.trainer->optimizer().steps(), 1);
  EXPECT_FALSE(run.trainer->step().skipped);
  EXPECT_EQ(run.trainer->position().bad_steps_in_a_row, 0);
  EXPECT_NE(run.weights(), before);
}

TEST(Trainer, gives_up_after_too_many_bad_steps_with_the_last_good_state_saved) {
  Record record;
  SmallRun run;
  TrainOptions options = small_options();
  options.max_bad_steps = 3;
  options.eval_interval = 0;
  run.trainer = std::make_unique<Trainer>(run.run, run.model, run.trainer->data(), options,
                                          recording(record, run.trainer));
  for (Parameter& p : run.model.parameters()) {  // finite weights whose logits are not
    if (p.name == "transformer.ln_f.weight") std::ranges::fill(p.value, 3e38f);
    if (p.name == "transformer.wte.weight") std::ranges::fill(p.value, 2.0f);
  }
  const std::vector<float> before = run.weights();
  try {
    run.trainer->train();
    FAIL() << "trained";
  } catch (const NumericalError& error) {
    EXPECT_THAT(error.what(), HasSubstr("3 steps in a row"));
  }
  EXPECT_EQ(run.weights(), before);
  ASSERT_EQ(record.skips.size(), 3u);
  EXPECT_EQ(record.skips[2].iter, 2);
  EXPECT_EQ(record.skips[2].in_a_row, 3);
  EXPECT_THAT(record.reasons, ElementsAre(SaveReason::kBadNumbers));
}

TEST(Trainer, weights_that_are_not_finite_are_never_saved) {
  Record record;
  SmallRun run;
  run.trainer = std::make_unique<Trainer>(run.run, run.model, run.trainer->data(), small_options(),
                                          recording(record, run.trainer));
  run.model.parameters().values()[7] = std::numeric_limits<float>::infinity();
  EXPECT_THROW(run.trainer->train(), NumericalError);
  EXPECT_TRUE(record.saved.empty());
}

TEST(Trainer, without_validation_tokens_there_is_no_validation_loss) {
  Record record;
  SmallRun run;
  run.trainer =
      std::make_unique<Trainer>(run.run, run.model, TrainData{run.trainer->data().train, {}},
                                small_options(), recording(record, run.trainer));
  const TrainResult result = run.trainer->train();
  EXPECT_FALSE(result.last.val_loss || result.last.best_val_loss);
  EXPECT_EQ(record.lines.back().iter, 20);
  EXPECT_THAT(record.saved, Contains(16));
}

TEST(Trainer, a_text_shorter_than_a_window_is_an_error_with_both_numbers) {
  Runtime run({.threads = 1});
  Gpt model(small_config());
  const std::vector<TokenId> text = small_text(16);
  try {
    Trainer(run, model, {text, {}}, small_options());
    FAIL() << "accepted";
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), HasSubstr("at least 17 tokens"));
    EXPECT_THAT(error.what(), HasSubstr("block_size of 16"));
    EXPECT_THAT(error.what(), HasSubstr("found 16"));
  }
}

TEST(Trainer, a_watch_changes_no_bit_of_weights_and_moments) {
  GptConfig config = small_config();
  config.attn_pdrop = config.resid_pdrop = 0.1;
  SmallRun plain(small_options(), {}, config);
  plain.trainer->train();
  std::vector<WatchFrame> frames;
  TrainCallbacks callbacks;
  callbacks.watch_interval = 1;
  callbacks.on_watch = [&](const WatchFrame& frame) { frames.push_back(frame); };
  SmallRun watched(small_options(), callbacks, config);
  watched.trainer->train();
  EXPECT_EQ(watched.weights(), plain.weights());
  EXPECT_EQ(watched.trainer->position().last_loss, plain.trainer->position().last_loss);
  ASSERT_EQ(frames.size(), 20u);
  for (const WatchFrame& frame : frames) {
    ASSERT_EQ(frame.layers.size(), 2u);
    EXPECT_GT(frame.layers[1].rms, 0.0);
    EXPECT_GT(frame.layers[1].grad_norm, 0.0);
    EXPECT_LT(frame.layers[1].grad_norm, frame.grad_norm);
  }
}

TEST(Trainer, the_first_step_and_each_multiple_of_the_interval_are_watched) {
  std::vector<Index> iters;
  TrainCallbacks callbacks;
  callbacks.watch_interval = 6;
  callbacks.on_watch = [&](const WatchFrame& frame) { iters.push_back(frame.iter); };
  SmallRun run(small_options(), callbacks);
  run.trainer->train();
  EXPECT_THAT(iters, ElementsAre(1, 6, 12, 18));
}

TEST(Trainer, a_save_on_request_goes_on_and_is_made_once) {
  Record record;
  SmallRun run;
  TrainCallbacks callbacks = recording(record, run.trainer);
  callbacks.should_save = [&] {
    const Index iter = run.trainer->position().iter;
    return iter == 0 || iter == 5 || iter == 8;
  };
  run.trainer = std::make_unique<Trainer>(run.run, run.model, run.trainer->data(), small_options(),
                                          callbacks);
  run.trainer->train();
  EXPECT_THAT(record.saved, ElementsAre(0, 5, 8, 16, 20));
  EXPECT_EQ(record.reasons[1], SaveReason::kRequested);
}

TEST(Trainer, saves_by_the_clock_come_when_the_last_one_is_old_enough) {
  TrainOptions options = small_options();
  for (const auto& [minutes, saves] : {std::pair(1e-12, 21u), {1e6, 3u}}) {  // from step 0 on
    options.save_every_minutes = minutes;
    EXPECT_EQ(record_of(options).saved.size(), saves);
  }
}

TEST(Trainer, an_evaluation_that_is_the_best_so_far_is_saved) {
  TrainOptions options = small_options();
  options.save_interval = 1000;
  for (const bool best : {true, false}) {
    options.save_best = best;
    const Record record = record_of(options);
    EXPECT_EQ(record.saved, best ? (std::vector<Index>{8, 16, 20}) : (std::vector<Index>{20}));
    EXPECT_EQ(record.reasons.front(), best ? SaveReason::kBest : SaveReason::kFinished);
  }
}

TEST(Trainer, training_ends_when_the_validation_loss_has_not_fallen_for_long_enough) {
  TrainOptions options = small_options();
  options.max_iters = 100;
  options.eval_interval = 2;
  options.learning_rate = 1e-30;  // nothing changes: the loss at the start stays the lowest
  options.patience = 3;
  SmallRun run(options);
  const TrainResult result = run.trainer->train();
  EXPECT_TRUE(result.out_of_patience);
  EXPECT_EQ(result.last.iter, 6);
  EXPECT_EQ(run.trainer->position().evaluations_since_best, 3);
  EXPECT_EQ(run.trainer->train().last.iter, 6);  // and stays ended
}

TEST(Trainer, a_loss_far_above_those_before_is_told) {
  std::vector<LossSpike> spikes;
  SmallRun* in_use = nullptr;
  TrainCallbacks callbacks;
  callbacks.on_spike = [&](const LossSpike& spike) { spikes.push_back(spike); };
  callbacks.should_stop = [&] {
    for (Parameter& p : in_use->model.parameters()) {  // wild logits, all of them finite
      if (p.name != "transformer.ln_f.weight" || in_use->trainer->position().iter != 30) continue;
      std::ranges::fill(p.value, 500.0f);
    }
    return false;
  };
  TrainOptions options = small_options();
  options.max_iters = 32;
  SmallRun run(options, callbacks);
  in_use = &run;
  run.trainer->train();
  ASSERT_EQ(spikes.size(), 1u);  // of step 31
  EXPECT_GT(spikes[0].loss, spikes[0].limit);
  EXPECT_EQ(run.trainer->position().losses.losses.size(), 32u);
}

TEST(Trainer, a_run_without_a_watch_tells_where_a_bad_number_came_from_too) {
  std::vector<NonFinite> bad;
  TrainCallbacks callbacks;
  callbacks.on_non_finite = [&](const NonFinite& found) { bad.push_back(found); };
  TrainOptions options = small_options();
  options.max_bad_steps = 2;
  options.eval_interval = 0;
  SmallRun run(options, callbacks);
  for (Parameter& p : run.model.parameters()) {
    if (p.name != "transformer.h.1.attn.c_attn.weight") continue;
    for (float& w : p.value) w *= 1e28f;  // finite, with scores that are not
  }
  EXPECT_THROW(run.trainer->train(), NumericalError);
  ASSERT_EQ(bad.size(), 1u);
  EXPECT_EQ(bad[0].stage, "transformer.h.1.attn scores");
}

TEST(Trainer, a_watched_run_tells_where_the_first_bad_number_came_from) {
  std::vector<NonFinite> bad;
  Record record;
  SmallRun run;
  TrainOptions options = small_options();
  options.max_bad_steps = 3;
  options.eval_interval = 0;
  options.gradient_accumulation_steps = 2;
  TrainCallbacks callbacks = recording(record, run.trainer);
  callbacks.watch_interval = 1;
  Index good = 0;
  callbacks.on_watch = [&](const WatchFrame& frame) {
    if (++good != 7) return;
    EXPECT_EQ(frame.iter, 7);
    for (Parameter& p : run.model.parameters()) {
      if (p.name != "transformer.h.1.attn.c_attn.weight") continue;
      for (float& w : p.value) w *= 1e28f;  // finite, with scores that are not
    }
  };
  callbacks.on_non_finite = [&](const NonFinite& found) {
    EXPECT_TRUE(record.skips.empty());  // told first
    bad.push_back(found);
  };
  run.trainer =
      std::make_unique<Trainer>(run.run, run.model, run.trainer->data(), options, callbacks);
  EXPECT_THROW(run.trainer->train(), NumericalError);
  ASSERT_EQ(bad.size(), 1u);  // of three steps in a row that are skipped
  EXPECT_EQ(bad[0].iter, 8);
  EXPECT_EQ(bad[0].pass, "forward");
  EXPECT_EQ(bad[0].layer, 1);
  EXPECT_EQ(bad[0].stage, "transformer.h.1.attn scores");
  EXPECT_FALSE(std::isfinite(bad[0].value));
  ASSERT_EQ(bad[0].frames.size(), 5u);
  EXPECT_EQ(bad[0].frames.front().iter, 4);
  EXPECT_TRUE(std::isfinite(bad[0].frames[3].loss));
  EXPECT_EQ(bad[0].frames.back().iter, 8);
  EXPECT_EQ(record.skips.size(), 3u);
  for (const float g : run.model.parameters().grads()) ASSERT_EQ(g, 0.0f);
}

TEST(Trainer, gradients_that_are_bad_in_their_sum_alone_are_told_as_such) {
  std::vector<NonFinite> bad;
  TrainCallbacks callbacks;
  callbacks.watch_interval = 1;
  Gpt* model = nullptr;
  callbacks.on_watch = [&](const WatchFrame& frame) {
    if (frame.iter == 2) model->parameters().grads()[5] = std::numeric_limits<float>::quiet_NaN();
  };
  callbacks.on_non_finite = [&](const NonFinite& found) { bad.push_back(found); };
  TrainOptions options = small_options();
  options.max_iters = 5;
  SmallRun run(options, callbacks);
  model = &run.model;
  run.trainer->train();
  ASSERT_EQ(bad.size(), 1u);
  EXPECT_EQ(bad[0].pass, "sum");
  EXPECT_EQ(run.trainer->position().skipped_steps, 1);
}

}  // namespace
}  // namespace prenorm
