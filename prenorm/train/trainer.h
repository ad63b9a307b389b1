// Trains a Gpt: micro-batches, gradient clipping, AdamW, the learning rate's schedule, evaluation.
//
//   Trainer trainer(run, model, {corpus.train, corpus.validation}, options,
//                   {.on_progress = print_line, .on_save = save, .should_stop = interrupted});
//   TrainResult result = trainer.train();
//
// A step is a function of the weights, the moments and (seed, step): how a run is cut into
// sessions, micro-batches, threads or ranks changes no bit of it.
#pragma once
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "prenorm/model/gpt.h"
#include "prenorm/train/adamw.h"
#include "prenorm/train/clock.h"
#include "prenorm/train/data.h"
#include "prenorm/train/loss_spike.h"
#include "prenorm/train/non_finite.h"
#include "prenorm/train/options.h"
#include "prenorm/train/progress.h"
#include "prenorm/train/ranked_step.h"
#include "prenorm/train/ranks.h"
#include "prenorm/train/watch.h"

namespace prenorm {

// kRequested: should_save(), or save_every_minutes; kBest: the lowest validation loss so far.
enum class SaveReason { kInterval, kBest, kRequested, kInterrupted, kFinished, kBadNumbers };

// A step that was not applied because its loss or gradient was not finite.
struct SkippedStep {
  Index iter = 0;  // the step's number, counted from 0
  double loss = 0.0, grad_norm = 0.0;
  Index in_a_row = 0;
};

// All are optional. They are called between steps, on the thread that called train().
struct TrainCallbacks {
  // Each log_interval, each evaluation, and at the end.
  std::function<void(const Progress&)> on_progress;
  // Wherever a state is to be saved; weights and moments are finite and belong together.
  std::function<void(SaveReason)> on_save;
  std::function<void(const SkippedStep&)> on_skip;
  // Polled after each step: true finishes training here, after a save.
  std::function<bool()> should_stop;
  // Polled after each step: true saves here and goes on.
  std::function<bool()> should_save = {};
  // A loss far above those before it (loss_spike.h). It changes no bit.
  std::function<void(const LossSpike&)> on_spike = {};

  // The watch (watch.h): the health of each block in the first step and in every one whose number
  // is a multiple of the interval; 0: none, and nothing is computed for it. It changes no bit.
  Index watch_interval = 0;
  std::function<void(const WatchFrame&)> on_watch = {};
  // Before on_skip: where the first bad number of a skipped step came from; of steps that are
  // skipped in a row, of the first. With the last records of the watch, if there is one.
  std::function<void(const NonFinite&)> on_non_finite = {};
};

// All that a run remembers besides weights and moments.
struct TrainingPosition {
  Index iter = 0;  // steps completed
  Index skipped_steps = 0, bad_steps_in_a_row = 0;
  std::optional<double> last_val_loss, best_val_loss;
  Index best_iter = 0;
  Index evaluations_since_best = 0;
  Index last_eval_iter = -1, last_report_iter = -1;  // −1: none yet
  double loss_sum = 0.0;                             // of the steps since the last progress line
  Index loss_steps = 0;
  std::optional<double> last_loss, last_grad_norm;
  double elapsed_seconds = 0.0;
  RecentLosses losses;
};

struct StepResult {
  double loss = 0.0;       // mean over the step's tokens
  double grad_norm = 0.0;  // before clipping; not computed (0) where the loss is not finite
  double learning_rate = 0.0;
  bool skipped = false;
};

struct TrainResult {
  bool interrupted = false;
  bool out_of_patience = false;  // ended before max_iters
  Progress last;
  Index tokens = 0;  // trained on in this session
};

// The processes that train together (ranks.h), each with a trainer of its own, the same weights,
// data and options; null: this one alone. Rank 0's on_save is called with all moments in place, the
// others' are not called. What should_stop() says on one rank all of them do.
struct TrainRanks {
  Ranks* ranks = nullptr;
  Reduce reduce = Reduce::kExact;
};

class Trainer {
 public:
  // Sets the model's products to those of the options. Throws ConfigError for wrong options,
  // DataError where the training tokens are fewer than block_size + 1. The arguments by reference
  // must outlive the trainer.
  Trainer(const Runtime& run, Gpt& model, TrainData data, TrainOptions options,
          TrainCallbacks callbacks = {}, TrainRanks ranks = {});

  // Goes on from position() to max_iters, until should_stop(), or until the validation loss has not
  // fallen for `patience` evaluations. Throws NumericalError after
  // max_bad_steps skipped steps in a row; the weights are then still the last good ones.
  TrainResult train();

  // One step alone, without callbacks, evaluation or an end.
  StepResult step();
  // Mean loss over held-out tokens as the options say: Σ loss / Σ tokens, so that a short last
  // window counts for what it is. Nothing where should_stop() asks to stop, or where the
  // held-out text has no token to predict.
  std::optional<double> evaluate();

  const Gpt& model() const { return model_; }
  const TrainOptions& options() const { return options_; }
  const TrainData& data() const { return data_; }
  const TrainingPosition& position() const { return position_; }
  // Whether the newest evaluation was made of these very weights and is the lowest so far.
  bool at_best() const;
  const AdamW& optimizer() const { return optimizer_; }

  // For a resumed run: the moments are the optimizer's, the weights the model's.
  AdamW& optimizer() { return optimizer_; }
  // The position was saved: it is not saved again before the next step.
  void set_position(const TrainingPosition& position);

 private:
  bool agreed(bool here) const;  // on all ranks what is so on one
  bool stop_requested() const;
  bool evaluation_due() const;
  bool report_due() const;
  std::optional<SaveReason> save_due() const;
  bool save_wanted() const;
  bool out_of_patience() const;
  Progress progress() const;
  bool evaluate_and_remember();  // false: interrupted
  void report();
  void count_step(const StepResult& result);
  void note_skip(const StepResult& result);
  LossSum pass(Index step, Index first_sequence, Index sequences, const GptObserver* observer,
               GptStages* stages = nullptr);
  StepResult lone_step(double learning_rate);
  StepResult ranked_step(double learning_rate);
  bool watch_due() const;
  void tell_watch();
  void tell_non_finite(const StepResult& result);
  void save(SaveReason reason);

  const Runtime& run_;
  Gpt& model_;
  TrainData data_;
  TrainOptions options_;
  TrainCallbacks callbacks_;
  TrainRanks ranks_;
  AdamW optimizer_;
  Gpt::Workspace work_;
  std::unique_ptr<RankedStep> ranked_;     // none: this process alone
  std::vector<TokenId> inputs_, targets_;  // [batch_size, block_size]
  TrainingPosition position_;
  TrainingClock clock_;
  Index saved_iter_ = -1;                             // −1: not yet; a resumed run starts saved
  std::chrono::steady_clock::time_point saved_at_{};  // or begun
  std::unique_ptr<Watch> watch_;                      // none: not watched
  std::optional<WatchFrame> frame_;                   // of the last step, where it was watched
  std::deque<WatchFrame> frames_;                     // the last few
};

}  // namespace prenorm
