#include "prenorm/train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "prenorm/base/error.h"
#include "prenorm/kernels/adamw.h"
#include "prenorm/train/batch_order.h"
#include "prenorm/train/evaluation.h"
#include "prenorm/train/schedule.h"

namespace prenorm {
namespace {

TrainOptions validated(TrainOptions options) {
  options.validate();
  return options;
}

TrainData long_enough(TrainData data, Index block_size) {
  if (token_window_count(static_cast<Index>(data.train.size()), block_size) > 0) return data;
  throw DataError(fmt::format(
      "training text: expected at least {} tokens for a block_size of {}, found {}; use more text "
      "or a smaller block_size",
      block_size + 1, block_size, data.train.size()));
}

// Workspaces are made for certain products.
Gpt& with_products(Gpt& model, Products products) {
  model.set_products(products);
  return model;
}

AdamW::Options adamw_options(const TrainOptions& options) {
  return {.beta1 = options.beta1,
          .beta2 = options.beta2,
          .eps = options.adam_eps,
          .weight_decay = options.weight_decay,
          .grad_clip = options.grad_clip};
}

}  // namespace

Trainer::Trainer(const Runtime& run, Gpt& model, TrainData data, TrainOptions options,
                 TrainCallbacks callbacks, TrainRanks ranks)
    : run_(run),
      model_(with_products(model, options.dtype)),
      data_(long_enough(data, model.config().block_size)),
      options_(validated(std::move(options))),
      callbacks_(std::move(callbacks)),
      ranks_(ranks),
      optimizer_(model.parameters(), adamw_options(options_),
                 ranks.ranks == nullptr ? 0 : ranks.ranks->rank(),
                 ranks.ranks == nullptr ? 1 : ranks.ranks->size()),
      work_(model.make_workspace(options_.batch_size, model.config().block_size)),
      inputs_(static_cast<std::size_t>(options_.batch_size * model.config().block_size)),
      targets_(inputs_.size()),
      watch_(callbacks_.watch_interval > 0 ? std::make_unique<Watch>(model) : nullptr) {
  if (ranks_.ranks == nullptr) return;
  const StepPieces pieces(options_.batch_size, options_.gradient_accumulation_steps,
                          model_.config().block_size, ranks_.ranks->size());
  ranked_ = std::make_unique<RankedStep>(run_, model_, work_, *ranks_.ranks, ranks_.reduce,
                                         pieces.list());
}

TrainResult Trainer::train() {
  const Index first = position_.iter, evaluated = position_.last_eval_iter;
  clock_.start(position_.elapsed_seconds);
  saved_at_ = std::chrono::steady_clock::now();
  TrainResult result;
  for (;;) {
    if (evaluation_due() && !evaluate_and_remember()) {
      result.interrupted = true;
      break;
    }
    if (report_due()) report();
    if (position_.iter >= options_.max_iters) break;
    if (out_of_patience()) {
      result.out_of_patience = true;
      break;
    }
    if (const auto reason = save_due()) save(*reason);
    if (stop_requested()) {
      result.interrupted = true;
      break;
    }
    clock_.begin_lap();
    const StepResult done = step();
    clock_.end_step();
    if (watch_) tell_watch();
    if (done.skipped) {
      note_skip(done);
    } else if (const auto spike = position_.losses.add(position_.iter, done.loss)) {
      if (callbacks_.on_spike) callbacks_.on_spike(*spike);
    }
  }
  if (position_.iter > first || position_.last_eval_iter > evaluated || result.interrupted) {
    save(result.interrupted ? SaveReason::kInterrupted : SaveReason::kFinished);
  }
  result.last = progress();
  result.tokens =
      (position_.iter - first) * options_.sequences_per_step() * model_.config().block_size;
  return result;
}

// Forward and backward over one micro-batch of a step, or a piece of one.
LossSum Trainer::pass(Index step, Index first_sequence, Index batch, const GptObserver* observer,
                      GptStages* stages) {
  const Index time = model_.config().block_size;
  const double total = static_cast<double>(options_.sequences_per_step() * time);
  const auto tokens_here = static_cast<std::size_t>(batch * time);
  fill_batch(data_.train, options_.seed, step, first_sequence, time,
             std::span(inputs_).first(tokens_here), std::span(targets_).first(tokens_here));
  const TokenBatch tokens{TokenMatrix(inputs_.data(), {batch, time}),
                          TokenMatrix(targets_.data(), {batch, time})};
  return model_.forward_backward(run_, work_, tokens, 1.0 / total,
                                 {.seed = options_.seed,
                                  .step = static_cast<std::uint32_t>(step),
                                  .first_sequence = first_sequence},
                                 observer, stages);
}

StepResult Trainer::step() {
  const double learning_rate = learning_rate_at(options_, position_.iter);
  const StepResult result = ranked_ ? ranked_step(learning_rate) : lone_step(learning_rate);
  count_step(result);
  return result;
}

StepResult Trainer::ranked_step(double learning_rate) {
  ranks_.ranks->at_step(position_.iter);
  const RankedStep::Result done =
      ranked_->take(optimizer_, learning_rate, [this](const StepPiece& piece, GptStages& stages) {
        return pass(position_.iter, piece.first_sequence, piece.sequences, nullptr, &stages);
      });
  return {.loss = done.loss,
          .grad_norm = done.update.grad_norm,
          .learning_rate = learning_rate,
          .skipped = !done.update.applied};
}

StepResult Trainer::lone_step(double learning_rate) {
  const Index iter = position_.iter;
  StepResult result{.learning_rate = learning_rate};
  const bool watched = watch_due();
  LossSum sum;
  for (Index micro = 0; micro < options_.gradient_accumulation_steps; ++micro) {
    sum += pass(iter, micro * options_.batch_size, options_.batch_size,
                watched && micro == 0 ? watch_->observer() : nullptr);
  }
  model_.finish_gradients(run_, work_);
  result.loss = sum.mean();
  if (watched) frame_ = watch_->finish(iter + 1);
  if (std::isfinite(result.loss)) {
    const AdamW::Result update = optimizer_.step(run_, result.learning_rate);
    result.grad_norm = update.grad_norm;
    result.skipped = !update.applied;
  } else {
    model_.parameters().zero_grad();
    result.skipped = true;
  }
  if (watched) {
    frame_->loss = result.loss;
    // Of a step without a finite loss it was not computed.
    frame_->grad_norm = std::isfinite(result.loss) ? result.grad_norm : result.loss;
  }
  return result;
}

void Trainer::count_step(const StepResult& result) {
  ++position_.iter;
  if (result.skipped) {
    ++position_.skipped_steps;
    ++position_.bad_steps_in_a_row;
    return;
  }
  position_.bad_steps_in_a_row = 0;
  position_.loss_sum += result.loss;
  ++position_.loss_steps;
  position_.last_grad_norm = result.grad_norm;
}

bool Trainer::watch_due() const {
  return watch_ && (position_.iter == 0 || (position_.iter + 1) % callbacks_.watch_interval == 0);
}

void Trainer::tell_watch() {
  constexpr std::size_t kFrames = 5;
  if (!frame_) return;
  frames_.push_back(*frame_);
  if (frames_.size() > kFrames) frames_.pop_front();
  if (callbacks_.on_watch) callbacks_.on_watch(*frame_);
  frame_.reset();
}

// The step that was skipped, once more: the weights are those that it began with.
void Trainer::tell_non_finite(const StepResult& result) {
  if (!callbacks_.on_non_finite) return;
  const Index iter = position_.iter - 1;
  NonFinite bad;
  bad.pass = "sum";
  bad.stage = "gradient norm";
  bad.value = result.grad_norm;
  model_.parameters().zero_grad();
  for (Index micro = 0; micro < options_.gradient_accumulation_steps; ++micro) {
    NonFiniteTrace trace(model_);
    const LossSum loss =
        pass(iter, micro * options_.batch_size, options_.batch_size, trace.observer());
    model_.finish_gradients(run_, work_);
    trace.look_at_loss(loss.mean());
    model_.parameters().zero_grad();
    if (!trace.found()) continue;
    bad = *trace.found();
    break;
  }
  bad.iter = position_.iter;
  bad.frames.assign(frames_.begin(), frames_.end());
  callbacks_.on_non_finite(bad);
}

void Trainer::note_skip(const StepResult& result) {
  if (position_.bad_steps_in_a_row == 1) tell_non_finite(result);
  if (callbacks_.on_skip) {
    callbacks_.on_skip({.iter = position_.iter - 1,
                        .loss = result.loss,
                        .grad_norm = result.grad_norm,
                        .in_a_row = position_.bad_steps_in_a_row});
  }
  if (position_.bad_steps_in_a_row < options_.max_bad_steps) return;
  save(SaveReason::kBadNumbers);
  throw NumericalError(fmt::format(
      "training: expected finite numbers, found {} steps in a row without (up to step {}, loss {}, "
      "gradient norm {}); the weights are the last good ones; try a smaller learning_rate",
      position_.bad_steps_in_a_row, position_.iter - 1, result.loss, result.grad_norm));
}

std::optional<double> Trainer::evaluate() {
  return evaluate_windows(
      run_, model_, work_, data_.validation,
      {.time = model_.config().block_size,
       .batch = options_.batch_size,
       .max_windows = options_.eval_iters * options_.batch_size},
      [this] { return stop_requested(); }, ranks_.ranks);
}

bool Trainer::evaluate_and_remember() {
  clock_.begin_lap();
  const std::optional<double> loss = evaluate();
  if (!loss) return false;
  clock_.end_evaluation();
  position_.last_eval_iter = position_.iter;
  position_.last_val_loss = *loss;
  const std::optional<double> best = position_.best_val_loss;
  if (std::isfinite(*loss) && (!best || *loss < *best)) {
    position_.best_val_loss = loss;
    position_.best_iter = position_.iter;
    position_.evaluations_since_best = 0;
  } else {
    ++position_.evaluations_since_best;
  }
  return true;
}

bool Trainer::agreed(bool here) const {
  return ranks_.ranks == nullptr ? here : any(*ranks_.ranks, here);
}

bool Trainer::stop_requested() const {
  return agreed(callbacks_.should_stop && callbacks_.should_stop());
}

bool Trainer::evaluation_due() const {
  const Index iter = position_.iter, interval = options_.eval_interval;
  if (data_.validation.size() < 2 || position_.last_eval_iter == iter) return false;
  return iter == 0 || iter >= options_.max_iters || (interval > 0 && iter % interval == 0);
}

bool Trainer::report_due() const {
  const Index iter = position_.iter;
  if (position_.last_report_iter == iter) return false;
  if (position_.last_eval_iter == iter) return true;
  return iter > 0 && (iter >= options_.max_iters || iter % options_.log_interval == 0);
}

std::optional<SaveReason> Trainer::save_due() const {
  // Asked in any case, so that a request is taken also where there is nothing new to save.
  const bool wanted = save_wanted();
  const Index iter = position_.iter;
  if (iter == saved_iter_) return std::nullopt;
  if (wanted) return SaveReason::kRequested;
  if (iter == 0) return std::nullopt;
  const Index interval =
      options_.save_interval > 0 ? options_.save_interval : options_.eval_interval;
  if (interval > 0 && iter % interval == 0) return SaveReason::kInterval;
  if (options_.save_best && at_best()) return SaveReason::kBest;
  return std::nullopt;
}

// By somebody outside, or by the clock: unlike all else about saves no function of the step.
bool Trainer::save_wanted() const {
  const bool requested = callbacks_.should_save && callbacks_.should_save();
  const std::chrono::duration<double, std::ratio<60>> minutes =
      std::chrono::steady_clock::now() - saved_at_;
  const double every = options_.save_every_minutes;
  return agreed(requested || (every > 0 && minutes.count() >= every));
}

bool Trainer::at_best() const {
  return position_.best_val_loss && position_.best_iter == position_.iter &&
         position_.last_eval_iter == position_.iter;
}

bool Trainer::out_of_patience() const {
  return options_.patience > 0 && position_.evaluations_since_best >= options_.patience;
}

void Trainer::set_position(const TrainingPosition& position) {
  position_ = position;
  saved_iter_ = position.iter;
}

void Trainer::report() {
  if (position_.loss_steps > 0) {
    position_.last_loss = position_.loss_sum / static_cast<double>(position_.loss_steps);
  }
  position_.loss_sum = 0;
  position_.loss_steps = 0;
  position_.last_report_iter = position_.iter;
  if (callbacks_.on_progress) callbacks_.on_progress(progress());
}

Progress Trainer::progress() const {
  const Index iter = position_.iter, interval = options_.eval_interval;
  const Index steps = std::max<Index>(0, options_.max_iters - iter);
  const Index evaluations =
      data_.validation.empty() || steps == 0
          ? 0
          : 1 + (interval > 0 ? (options_.max_iters - 1) / interval - iter / interval : 0);
  const double seconds = clock_.seconds_per_step();
  const auto tokens =
      static_cast<double>(options_.sequences_per_step() * model_.config().block_size);
  const bool evaluated = position_.last_eval_iter == iter;
  return {.iter = iter,
          .max_iters = options_.max_iters,
          .loss = position_.last_loss,
          .val_loss = evaluated ? position_.last_val_loss : std::nullopt,
          .last_val_loss = position_.last_val_loss,
          .best_val_loss = position_.best_val_loss,
          .best_iter = position_.best_iter,
          .learning_rate = learning_rate_at(options_, std::max<Index>(0, iter - 1)),
          .grad_norm = position_.last_grad_norm,
          .tokens_per_second = seconds > 0 ? tokens / seconds : 0.0,
          .eta_seconds = clock_.remaining(steps, evaluations),
          .elapsed_seconds = clock_.elapsed(),
          .skipped_steps = position_.skipped_steps};
}

void Trainer::save(SaveReason reason) {
  if (!std::isfinite(kernels::sum_of_squares(run_, model_.parameters().values()))) {
    throw NumericalError(
        fmt::format("training: expected finite weights to save, found others after {} steps; the "
                    "state saved before is kept",
                    position_.iter));
  }
  position_.elapsed_seconds = clock_.elapsed();
  saved_iter_ = position_.iter;
  if (ranked_) gather_moments(*ranks_.ranks, optimizer_);
  const bool writes = !ranked_ || ranks_.ranks->rank() == 0;
  if (writes && callbacks_.on_save) callbacks_.on_save(reason);
  optimizer_.keep_own();
  saved_at_ = std::chrono::steady_clock::now();
}

}  // namespace prenorm
