#include "prenorm/study/diagnose_evaluation.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <mutex>
#include <optional>
#include <utility>

namespace prenorm {
namespace {

// A small step of a number that is fitted.
double step_of(const MistakeChoice& choice) {
  const double number = *choice.number;
  return choice.name == "norm.eps-value" ? std::max(0.03 * number, 1e-10)
                                         : 1e-4 * (1.0 + std::abs(number));
}

constexpr double kMostRounding = 1e-3;  // of float32, to a stage's size

std::size_t at(Index slot) { return static_cast<std::size_t>(slot); }

}  // namespace

void on_threads(const Runtime& run, Index pieces, const std::function<void(Index)>& body) {
  std::exception_ptr failed;
  std::mutex mutex;
  run.pool().run(pieces, [&](Index i, int) {
    try {
      body(i);
    } catch (...) {
      const std::lock_guard lock(mutex);
      failed = std::current_exception();
    }
  });
  if (failed) std::rethrow_exception(failed);
}

Evaluation::Evaluation(const Runtime& run, const Replay& replay, reference::GptOptions right,
                       reference::Numbers numbers)
    : run_(run),
      replay_(replay),
      right_(std::move(right)),
      numbers_(numbers),
      base_(replay.run(right_)),
      rounded_base_(replay.rounded_run(right_, numbers_)),
      floor_(static_cast<std::size_t>(replay.stages().count()), 0.0) {
  for (const Index slot : replay.observed()) {
    floor_[at(slot)] = replay.rounding(slot, base_, rounded_base_);
  }
}

const Evaluation::Replayed& Evaluation::replayed(const Mistakes& mistakes) const {
  const reference::GptOptions options = with_mistakes(right_, mistakes);
  std::vector<double> print = fingerprint(options);
  if (replayed_ != nullptr && replayed_->fingerprint == print) return *replayed_;
  replayed_ = std::make_unique<Replayed>(Replayed{std::move(print), trace(mistakes), floor_});
  const Trace& exact = replayed_->trace;
  const Trace rounded = replay_.rounded_run(options, numbers_, &rounded_base_, Keep::kCompared);
  for (const Index slot : replay_.observed()) {
    const bool same = exact.at(slot).computed == base_.at(slot).computed &&
                      rounded.at(slot).computed == rounded_base_.at(slot).computed;
    if (!same) replayed_->floor[at(slot)] = replay_.rounding(slot, exact, rounded);
  }
  return *replayed_;
}

const Trace* Evaluation::remembered(const std::vector<double>& fingerprint) const {
  const auto it = std::ranges::find(traces_, fingerprint, &Remembered::fingerprint);
  return it == traces_.end() ? nullptr : &it->trace;
}

void Evaluation::remember(std::vector<double> fingerprint, Trace trace) const {
  constexpr std::size_t kMost = 4;
  traces_.push_front({std::move(fingerprint), std::move(trace)});
  if (traces_.size() > kMost) traces_.pop_back();
}

Trace Evaluation::trace(const Mistakes& mistakes) const {
  const reference::GptOptions options = with_mistakes(right_, mistakes);
  std::vector<double> print = fingerprint(options);
  if (const Trace* known = remembered(print)) return *known;
  remember(std::move(print),
           replay_.run(options, &base_, true, Arithmetic::kDouble, Keep::kCompared));
  return traces_.front().trace;
}

Trace Evaluation::whole_trace(const Mistakes& mistakes) const {
  return replay_.run(with_mistakes(right_, mistakes), &base_);
}

void Evaluation::add(Score& score, Index slot, double residual) const {
  constexpr double kHuge = 1e30;
  const double r = std::min(kHuge, residual / floor_[at(slot)]);
  score.cost += std::log2(r + 0.1);
  score.loss += r;
}

// A stage that the dump has and the mistaken model never computes cannot be right.
Score Evaluation::score(const Trace& trace, std::span<const Index> slots) const {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  Score score;
  for (const Index slot : slots) {
    const TracedStage& stage = trace.at(slot);
    add(score, slot, stage.computed == nullptr ? kInfinite : stage.residual);
  }
  const Index logits = replay_.stages().logits();
  if (slots.size() == 1 && slots.front() == logits && trace.at(logits).computed != nullptr) {
    add_logits(score, *trace.at(logits).computed);
  }
  return score;
}

void Evaluation::add_logits(Score& score, const Values& computed) const {
  const Index slot = replay_.stages().logits();
  const TracedStage& right = base_.at(slot);
  if (right.computed == nullptr) return;
  const double r = mean_square_difference(computed, *right.computed) / floor_[at(slot)];
  score.moved = std::log2(std::min(1e30, r) + 0.1);
  score.size = mean_square(computed) / std::max(mean_square(*right.computed), 1e-300);
}

const Values* Evaluation::first_rows(const std::vector<double>& fingerprint) const {
  const auto known = first_rows_.find(fingerprint);
  return known == first_rows_.end() ? nullptr : &known->second;
}

void Evaluation::keep(const std::vector<double>& fingerprint, const Trace& trace) const {
  const TracedStage& logits = trace.at(replay_.stages().logits());
  if (logits.computed == nullptr) return;
  first_rows_.emplace(fingerprint, row_range(*logits.computed, 0, kept_rows_));
}

const Trace& Evaluation::started(const Mistakes& start) const {
  const reference::GptOptions options = with_mistakes(right_, start);
  std::vector<double> print = fingerprint(options);
  if (start_ == nullptr || start_->fingerprint != print) {
    start_ =
        std::make_unique<Replayed>(Replayed{std::move(print), replay_.run(options, &base_), {}});
  }
  return start_->trace;
}

std::vector<Score> Evaluation::scores(std::span<const Mistakes> sets, std::span<const Index> slots,
                                      const Mistakes& start, Arithmetic arithmetic) const {
  std::vector<Score> out(sets.size());
  std::vector<std::vector<double>> prints(sets.size()), keys(sets.size());
  std::vector<std::size_t> unknown;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    prints[i] = fingerprint(with_mistakes(right_, sets[i]));
    keys[i] = prints[i];
    for (const Index slot : slots) keys[i].push_back(static_cast<double>(slot));
    keys[i].push_back(static_cast<double>(arithmetic));
    const auto known = scored_.find(keys[i]);
    if (known != scored_.end()) {
      out[i] = known->second;
    } else {
      unknown.push_back(i);
    }
  }
  if (unknown.empty()) return out;
  const Trace& from = start.empty() ? base_ : started(start);
  // The best is asked about again.
  std::mutex mutex;
  std::optional<std::size_t> best;
  Trace best_trace(0);
  on_threads(run_, static_cast<Index>(unknown.size()), [&](Index piece) {
    const std::size_t i = unknown[at(piece)];
    const auto options = with_mistakes(right_, sets[i]);
    Trace trace = replay_.run(options, &from, false, arithmetic, Keep::kCompared);
    out[i] = score(trace, slots);
    const std::lock_guard lock(mutex);
    if (kept_rows_ > 0 && sets[i].size() == 1) keep(prints[i], trace);
    if (best && !(out[i].cost < out[*best].cost)) return;
    best = i;
    best_trace = std::move(trace);
  });
  if (arithmetic == Arithmetic::kDouble) remember(prints[*best], std::move(best_trace));
  for (const std::size_t i : unknown) scored_.emplace(std::move(keys[i]), out[i]);
  return out;
}

// --- Fits ---------------------------------------------------------------------------------------

// The step of Gauss and Newton in one number: ⟨theirs − here, slope⟩ / ⟨slope, slope⟩, in units of
// `by`, each stage weighed by its rounding.
double Evaluation::fit_step(const Trace& here, const Trace& beside, double by,
                            std::span<const Index> slots) const {
  double along = 0.0, square = 0.0;
  for (const Index slot : slots) {
    const TracedStage &a = here.at(slot), &b = beside.at(slot);
    if (a.computed == nullptr || b.computed == nullptr || a.computed == b.computed) continue;
    const Values& theirs = *replay_.problem().theirs.at(slot);
    const double weight = 1.0 / (floor_[at(slot)] * static_cast<double>(theirs.size()));
    for (Index i = 0; i < theirs.size(); ++i) {
      const double slope = (*b.computed)[i] - (*a.computed)[i];
      along += weight * (theirs[i] - (*a.computed)[i]) * slope;
      square += weight * slope * slope;
    }
  }
  return square > 0.0 && std::isfinite(along) ? by * along / square : 0.0;
}

// One step for one number of the set; false where nothing better is near.
bool Evaluation::fit_number(Mistakes& set, std::size_t which, std::span<const Index> slots,
                            double exactly) const {
  const bool positive = set[which].name == "norm.eps-value";
  const double number = *set[which].number;
  const double by = step_of(set[which]);
  const Trace here = trace(set);
  Mistakes other = set;
  other[which].number = number + by;
  double step = fit_step(here, trace(other), by, slots);
  const double loss = score(here, slots).loss;
  for (int tries = 0; tries < 4 && step != 0.0; ++tries, step /= 4.0) {
    double next = number + step;
    if (positive && next <= 0.0) next = number / 10.0;
    if (positive && next < 1e-15) return false;
    other[which].number = next;
    const double now = score(trace(other), slots).loss;
    if (now >= loss) continue;
    set = other;
    // Far off, a step that wins little leads nowhere.
    constexpr double kFar = 1e4, kLittle = 0.8;
    if (now > kFar * static_cast<double>(slots.size()) && now > kLittle * loss) return false;
    // What is left may be the rounding, which no number is nearer to than another.
    constexpr double kWon = 0.999;
    return now < kWon * loss && std::abs(next - number) > exactly * std::abs(number);
  }
  return false;
}

Evaluation::Prospect Evaluation::prospect(const Mistakes& set, std::span<const Index> slots) const {
  const auto it = std::ranges::find_if(set, has_continuous_value);
  if (it == set.end()) return {0.0, 0.0};
  const auto which = static_cast<std::size_t>(it - set.begin());
  Mistakes other = set;
  const double by = step_of(set[which]);
  other[which].number = *set[which].number + by;
  const Trace here = trace(set), beside = trace(other);
  const double step = fit_step(here, beside, by, slots);
  // ‖e − s d‖² = ‖e‖² − s² ‖d‖²
  double slope = 0.0;
  for (const Index slot : slots) {
    const TracedStage &a = here.at(slot), &b = beside.at(slot);
    if (a.computed == nullptr || b.computed == nullptr || a.computed == b.computed) continue;
    slope += mean_square_difference(*a.computed, *b.computed) / floor_[at(slot)];
  }
  const double loss = score(here, slots).loss;
  return {loss, loss - step * step / (by * by) * slope};
}

Mistakes Evaluation::fitted(Mistakes set, std::span<const Index> slots, int most_steps,
                            double exactly) const {
  for (int step = 0; step < most_steps; ++step) {
    bool moved = false;
    for (std::size_t i = 0; i < set.size(); ++i) {
      if (has_continuous_value(set[i])) moved = fit_number(set, i, slots, exactly) || moved;
    }
    if (!moved) break;
  }
  return set;
}

// How far off a replay is goes down to nothing and up again in about a straight line: where it
// does, between a number of the grid and the better of those beside it.
double Evaluation::between_masks(const Mistakes& set, std::size_t which,
                                 std::span<const Index> slots) const {
  const double number = *set[which].number;
  const auto grid = mask_numbers();
  const auto here = std::ranges::find(grid, number);
  if (here == grid.end()) return number;
  std::vector<Mistakes> sets{set};
  for (const auto beside : {here - 1, here + 1}) {
    if (here == grid.begin() && beside < here) continue;
    if (beside == grid.end()) continue;
    sets.push_back(set);
    sets.back()[which].number = *beside;
  }
  const std::vector<Score> scores = this->scores(sets, slots, {}, Arithmetic::kQuick);
  std::size_t best = 1;
  for (std::size_t i = 1; i < sets.size(); ++i) {
    if (scores[i].loss < scores[best].loss) best = i;
  }
  const double ours = std::sqrt(scores.front().loss), theirs = std::sqrt(scores[best].loss);
  return number + (*sets[best][which].number - number) * ours / (ours + theirs);
}

// There, and where a step from there leads.
Evaluation::RoughFit Evaluation::fit_at(Mistakes set, std::size_t which, double number,
                                        std::span<const Index> slots) const {
  set[which].number = number;
  const double by = step_of(set[which]);
  std::vector<Trace> traces(2, Trace(0));
  on_threads(run_, 2, [&](Index i) {
    Mistakes one = set;
    one[which].number = number + static_cast<double>(i) * by;
    traces[at(i)] =
        replay_.run(with_mistakes(right_, one), &base_, false, Arithmetic::kQuick, Keep::kCompared);
  });
  double next = number + fit_step(traces[0], traces[1], by, slots);
  if (set[which].name == "norm.eps-value" && next <= 0.0) next = number / 10.0;
  return {number, score(traces[0], slots).loss, next};
}

std::optional<Mistakes> Evaluation::roughly_fitted(Mistakes set,
                                                   std::span<const Index> slots) const {
  constexpr int kSteps = 6;
  constexpr double kLittle = 0.6, kRoughly = 1e-2;
  const auto it = std::ranges::find_if(set, has_continuous_value);
  if (it == set.end()) return std::nullopt;
  const auto which = static_cast<std::size_t>(it - set.begin());
  const bool mask = it->name == "attention.mask-finite";
  const double before = scores(std::span(&set, 1), slots, {}, Arithmetic::kQuick).front().loss;
  constexpr double kExplained = 16.0;
  if (before <= kExplained * static_cast<double>(slots.size())) return set;
  const double first = mask ? between_masks(set, which, slots) : *it->number;
  RoughFit best = fit_at(set, which, first, slots);
  if (mask && !(best.loss < kLittle * before)) return std::nullopt;
  for (int step = 0; step < kSteps; ++step) {
    const double moved = std::abs(best.next - best.number);
    const RoughFit there = fit_at(set, which, best.next, slots);
    if (!(there.loss < (step == 0 && !mask ? kLittle : 1.0) * best.loss)) break;
    best = there;
    if (moved <= kRoughly * std::abs(best.number)) break;
  }
  set[which].number = best.number;
  return best.loss < kLittle * before ? std::optional(set) : std::nullopt;
}

bool Evaluation::hopeless(const Mistakes& set, double loss, std::span<const Index> slots) const {
  constexpr double kTimes = 2.0, kMore = 4.0;  // more than what is no worse
  return std::ranges::count_if(set, has_continuous_value) == 1 &&
         prospect(set, slots).attainable >
             kTimes * loss + kMore * static_cast<double>(slots.size());
}

bool Evaluation::no_worse(const Trace& before, const Trace& after,
                          std::span<const Index> slots) const {
  return std::ranges::all_of(slots, [&](Index slot) {
    if (after.at(slot).computed == nullptr) return before.at(slot).computed == nullptr;
    return after.residual(slot) <= 1.5 * before.residual(slot) + 2.0 * floor_[at(slot)];
  });
}

bool Evaluation::far_off(const Score& score, std::span<const Index> slots, double times) const {
  constexpr double kSurely = 2.0;  // a score may be float's
  const Index logits = replay_.stages().logits();
  if (numbers_ != reference::Numbers::kFloat32 || slots.size() != 1 || slots.front() != logits ||
      base_.at(logits).computed == nullptr)
    return false;
  const double most = kSurely * times * kMostRounding;
  const double size = score.size * mean_square(*base_.at(logits).computed);
  return score.loss * floor_[at(logits)] > most * most * size;
}

bool Evaluation::far_off(const Trace& trace, std::span<const Index> slots, double times) const {
  if (numbers_ != reference::Numbers::kFloat32) return false;
  return std::ranges::any_of(slots, [&](Index slot) {
    const TracedStage& stage = trace.at(slot);
    if (stage.computed == nullptr) return true;
    const double most = times * kMostRounding;
    return stage.residual > most * most * mean_square(*stage.computed);
  });
}

bool Evaluation::explains(const Mistakes& mistakes, std::span<const Index> slots,
                          double times) const {
  if (far_off(trace(mistakes), slots, times)) return false;
  const Replayed& found = replayed(mistakes);
  return std::ranges::all_of(slots, [&](Index slot) {
    return found.trace.at(slot).computed != nullptr &&
           found.trace.residual(slot) <= times * times * found.floor[at(slot)];
  });
}

}  // namespace prenorm
