// What the first tokens tell where a dump has the logits alone: DiagnoseSearch's use of
// diagnose_crowd.h.
#include <algorithm>
#include <utility>

#include "prenorm/study/diagnose_crowd.h"
#include "prenorm/study/diagnose_places.h"
#include "prenorm/study/diagnose_search.h"

namespace prenorm {

// Down to the rounding of logits of that size, from far off. In float a replay has its own
// rounding, about as much again.
bool DiagnoseSearch::is_enough(const Score& score, const Score& base, std::size_t slots,
                               Arithmetic arithmetic) {
  const double times = arithmetic == Arithmetic::kDouble ? 3.0 : 16.0;
  return base.cost - score.cost > 10.0 &&
         score.loss <= times * std::max(1.0, score.size) * static_cast<double>(slots);
}

// The scores of sets that the crowd takes, on the first tokens; those that were asked for before
// are remembered.
std::vector<Score> DiagnoseSearch::crowd_scores(const Evaluation& few,
                                                const std::vector<Mistakes>& sets,
                                                const Mistakes& start, Arithmetic arithmetic) {
  std::vector<Score> out(sets.size());
  std::vector<std::vector<double>> keys(sets.size());
  std::vector<std::size_t> unknown;
  std::vector<Mistakes> part;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    keys[i] = fingerprint(with_mistakes(full_->right(), sets[i]));
    keys[i].push_back(static_cast<double>(few.replay().problem().time));
    keys[i].push_back(static_cast<double>(arithmetic));
    const auto known = crowd_scored_.find(keys[i]);
    if (known != crowd_scored_.end()) {
      out[i] = known->second;
      continue;
    }
    unknown.push_back(i);
    part.push_back(sets[i]);
  }
  if (unknown.empty()) return out;
  const DiagnoseCrowd crowd(run_, screen(true), few, start, arithmetic);
  const std::vector<Values> logits = crowd.logits(part);
  for (std::size_t k = 0; k < unknown.size(); ++k) {
    const Score score = crowd.score_of(logits[k]);
    out[unknown[k]] = score;
    crowd_scored_.emplace(std::move(keys[unknown[k]]), score);
    if (&few == prefix_.get() && part[k].size() == 1) learn(early_, few, part[k], logits[k]);
  }
  return out;
}

bool DiagnoseSearch::few_serve(const Mistakes& start) const {
  return few_ != nullptr && !looks_ahead(start);
}

// Those that a few tokens tell, many at a time.
bool DiagnoseSearch::screen_crowd(const std::vector<Mistakes>& sets, std::span<const Index> slots,
                                  const Mistakes& start, std::vector<bool>& done, Screened& out) {
  constexpr std::size_t kMany = 100;
  if (!few_serve(start)) return false;
  const Arithmetic arithmetic = screening_arithmetic(screen(true).base_score(slots), slots.size());
  const bool pairs = start.empty() && !sets.empty() && sets.front().size() > 1;
  const Evaluation& few = sets.size() < kMany && !pairs ? *prefix_ : *few_;
  std::vector<std::size_t> which;
  std::vector<Mistakes> part;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    if (done[i] || !DiagnoseCrowd::takes(sets[i], start)) continue;
    which.push_back(i);
    part.push_back(sets[i]);
  }
  const Score base = few.base_score(slots);
  part.push_back(start);
  const std::vector<Score> scores = crowd_scores(few, part, start, arithmetic);
  for (std::size_t i = 0; i < which.size(); ++i) {
    done[which[i]] = true;
    out.gains[which[i]] = base.cost - scores[i].cost;
    out.moved[which[i]] = scores[i].moved;
    // What is in one place must explain by itself what the start has left.
    const bool local = !part[i].empty() && !part[i].back().where.empty();
    if (!is_enough(scores[i], local ? scores.back() : base, slots.size(), arithmetic)) continue;
    out.enough = true;
    out.all.push_back(part[i]);
  }
  return out.enough;
}

// Mistakes everywhere that look ahead take a pass of a whole sequence each. One of them that in the
// last layer alone moves the logits by ten times what is left to be explained moves them too far.
std::vector<std::size_t> DiagnoseSearch::not_too_far(const std::vector<Mistakes>& sets,
                                                     std::vector<std::size_t> which,
                                                     std::span<const Index> slots,
                                                     const Mistakes& start) {
  constexpr double kTooFar = 6.7;  // of cost, 2 log₂ 10
  if (which.empty() || !few_serve(start)) return which;
  const Index last = full_replay_->model().layers() - 1;
  std::vector<Mistakes> there{start};
  std::vector<std::size_t> place(which.size(), 0);
  for (std::size_t k = 0; k < which.size(); ++k) {
    const Mistakes& set = sets[which[k]];
    const MistakeChoice& added = set.back();
    if (set.size() != start.size() + 1 || !added.where.empty()) continue;
    place[k] = there.size();
    there.push_back(start);
    there.back().push_back(added);
    there.back().back().where = "transformer.h." + std::to_string(last);
  }
  const Arithmetic arithmetic = screening_arithmetic(screen(true).base_score(slots), slots.size());
  const std::vector<Score> scores = crowd_scores(*few_, there, start, arithmetic);
  std::vector<std::size_t> out;
  for (std::size_t k = 0; k < which.size(); ++k) {
    const bool told = place[k] > 0;
    if (!told || scores[place[k]].cost < scores.front().cost + kTooFar) out.push_back(which[k]);
  }
  return out;
}

// Which pairs hold a mistake that moves the logits far less than what is to be explained beside one
// that alone explains no more than a part: it would explain nearly all.
std::vector<bool> DiagnoseSearch::too_small(const std::vector<Mistakes>& sets,
                                            std::span<const Index> slots,
                                            const Mistakes& start) const {
  constexpr double kFarLess = 8.0, kPart = 3.0;  // of cost
  std::vector<bool> out(sets.size());
  if (few_ == nullptr || !start.empty()) return out;
  const double left = full_->base_score(slots).cost;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    if (sets[i].size() != 2) continue;
    const Alone *a = alone(sets[i][0]), *b = alone(sets[i][1]);
    if (a == nullptr || b == nullptr) continue;
    out[i] = (a->moved < left - kFarLess && b->gain < kPart) ||
             (b->moved < left - kFarLess && a->gain < kPart);
  }
  return out;
}

// A few tokens more sort out what three have left, before all do.
std::vector<Mistakes> DiagnoseSearch::without_far_behind(std::vector<Mistakes> sets,
                                                         const Mistakes& start) {
  constexpr double kBehind = 4.0;  // of cost: a residual of sixteen times
  constexpr std::size_t kLeast = 3;
  if (!few_serve(start) || sets.size() <= kLeast) return sets;
  std::vector<Mistakes> part;
  for (const Mistakes& set : sets) {
    if (std::ranges::none_of(set, has_continuous_value) && DiagnoseCrowd::takes(set, start)) {
      part.push_back(set);
    }
  }
  if (part.size() <= kLeast) return sets;
  const std::vector<Score> scores = crowd_scores(*prefix_, part, start, Arithmetic::kDouble);
  std::vector<double> costs;
  for (const Score& score : scores) costs.push_back(score.cost);
  std::ranges::sort(costs);
  const double most = std::max(costs[kLeast - 1], costs.front() + kBehind);
  for (std::size_t k = 0; k < part.size(); ++k) {
    if (scores[k].cost > most) std::erase(sets, part[k]);
  }
  return sets;
}

bool DiagnoseSearch::tried_by_few(const DiagnoseScope& scope) const {
  constexpr double kFar = 1e3;  // of loss: what explains all of it is right
  return few_serve({}) && full_->base_score(scope.slots).loss >= kFar;
}

// Of what is far off, a mistake that a few tokens tell: everywhere, or in one layer.
bool DiagnoseSearch::told_by_few(const DiagnoseScope& scope, Candidates& next) {
  if (!tried_by_few(scope)) return false;
  constexpr double kMuch = 6.0;  // of gain: most of what is left
  std::vector<Mistakes> best_part;
  double best = kMuch;
  bool near = false;  // the best is of those that do not come down to the rounding here
  const auto told = [&](const std::vector<Mistakes>& part) {
    next = ranked(part, scope.slots);
    return !next.empty() && explains(next.front(), scope.slots);
  };
  for (const std::vector<Mistakes>* all : {&scope.likely, &scope.others}) {
    std::vector<Mistakes> part;
    for (const Mistakes& set : *all) {
      if (DiagnoseCrowd::takes(set, {})) part.push_back(set);
    }
    if (part.empty()) continue;
    const Screened found = screened(part, scope.slots, {});
    if (found.enough && told(part)) return true;
    const auto first = std::ranges::max_element(found.gains);
    if (*first <= best) continue;
    best = *first;
    const MistakeChoice& m = part[static_cast<std::size_t>(first - found.gains.begin())].back();
    near = !found.enough && (m.name.starts_with("numbers.") || has_continuous_value(m));
    best_part = std::move(part);
  }
  return near && told(best_part);
}

}  // namespace prenorm
