#include "prenorm/study/diagnose_search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string_view>
#include <utility>

#include "prenorm/study/diagnose_crowd.h"
#include "prenorm/study/diagnose_places.h"

namespace prenorm {
namespace {

// Beyond so many a search is worth its time: of a type of few bits the rounding is known better.
constexpr double kDoubtful = 2.0, kDoubtfulNarrow = 1.2;
constexpr std::size_t kMostMistakes = 6;
constexpr Index kMostRows = 64, kFew = 3;  // attention has something to weigh

constexpr double kNoNumber = 1.0;  // nobody masks with a number below one that is not zero

// The rounding of few tokens is known less well: by a share of 1/√rows.
double few_rows_doubt(Index rows) {
  constexpr double kDoubt = 3.0, kMany = 32.0;
  return kDoubt *
         std::max(0.0, 1.0 / std::sqrt(static_cast<double>(rows)) - 1.0 / std::sqrt(kMany));
}

std::set<std::string> names_of(const Mistakes& mistakes) {
  std::set<std::string> names;
  for (const MistakeChoice& m : mistakes) names.insert(m.name);
  return names;
}

}  // namespace

DiagnoseSearch::DiagnoseSearch(const Runtime& run, const DiagnoseModel& model,
                               const DiagnoseProblem& problem, reference::Numbers numbers,
                               Progress progress)
    : run_(run),
      numbers_(numbers),
      progress_(std::move(progress)),
      doubtful_times_((numbers == reference::Numbers::kFloat32 ? kDoubtful : kDoubtfulNarrow) +
                      few_rows_doubt(problem.rows())) {
  const auto right = model.options();
  const auto make = [&](DiagnoseProblem part, auto& replay, auto& evaluation) {
    replay = std::make_unique<Replay>(run, model, std::move(part));
    evaluation = std::make_unique<Evaluation>(run, *replay, right, numbers);
  };
  const Index batch = std::clamp<Index>(kMostRows / problem.time, 1, problem.batch);
  make(problem.cropped(batch, problem.time), full_replay_, full_);
  if (batch > 1) make(problem.cropped(1, problem.time), sequence_replay_, sequence_);
  if (problem.time > kPrefix) make(problem.cropped(1, kPrefix), prefix_replay_, prefix_);
  if (DiagnoseCrowd::serves(problem, full_replay_->stages(), kPrefix)) {
    make(problem.cropped(1, kFew), few_replay_, few_);
    (sequence_ ? *sequence_ : *full_).keep_first_rows(compared_tokens());
  }
}

bool DiagnoseSearch::clean(std::span<const Index> slots) const {
  return departing({}, slots, doubtful_times_).empty();
}

// What leaves more than the right model does explains nothing, though its own rounding may be that
// large: of half floats it is.
bool DiagnoseSearch::explains(const Candidate& candidate, std::span<const Index> slots) const {
  if (!candidate.mistakes.empty() && candidate.score.loss >= full_->base_score(slots).loss)
    return false;
  return !full_->far_off(candidate.score, slots, kCleanTimes) &&
         full_->explains(candidate.mistakes, slots, kCleanTimes);
}

void DiagnoseSearch::remember(const Candidates& candidates) {
  for (std::size_t i = 0; i < std::min(candidates.size(), kRefined); ++i) {
    seen_.push_back(candidates[i]);
  }
}

std::vector<Mistakes> DiagnoseSearch::extended(const Mistakes& start,
                                               const std::vector<Mistakes>& by) const {
  std::vector<Mistakes> out;
  const auto options = with_mistakes(full_->right(), start);
  const auto before = fingerprint(options);
  for (const Mistakes& more : by) {
    const auto alone = with_mistakes(full_->right(), more);
    const auto both = fingerprint(with_mistakes(options, more));
    if (both != fingerprint(with_mistakes(alone, start)) || both == before ||
        (!start.empty() && both == fingerprint(alone))) {
      continue;
    }
    out.push_back(start);
    out.back().insert(out.back().end(), more.begin(), more.end());
  }
  return out;
}

// Mistakes whose removal changes nothing are taken out.
void DiagnoseSearch::prune(Candidate& found, std::span<const Index> slots) const {
  for (std::size_t i = found.mistakes.size(); i-- > 0 && found.mistakes.size() > 1;) {
    Mistakes without = found.mistakes;
    without.erase(without.begin() + static_cast<std::ptrdiff_t>(i));
    const Score score = full_->score(full_->trace(without), slots);
    if (score.cost > found.score.cost + kWorthwhile) continue;
    found = {without, score};
  }
}

// Beside what was found, one more in one place.
void DiagnoseSearch::add_local(const DiagnoseScope& scope, const Candidate& found,
                               Candidates& next) {
  const Candidates local =
      ranked(extended(found.mistakes, scope.others), scope.slots, found.mistakes);
  // The same mistake in all layers is the simpler explanation.
  const bool better = next.empty() || (!local.empty() && local.front().score.cost + kWorthwhile <
                                                             next.front().score.cost);
  next.insert(better ? next.begin() : next.end(), local.begin(), local.end());
}

// The best that is everywhere, in one layer only, if that explains the scope.
bool DiagnoseSearch::add_in_one_place(const DiagnoseScope& scope, const Candidate& found,
                                      Candidates& next) {
  const MistakeChoice& best = next.front().mistakes.back();
  if (found.mistakes.empty() && tried_by_few(scope) && best.name != "norm.axis") return false;
  std::vector<Mistakes> same;
  for (const Mistakes& other : scope.others) {
    if (other.size() == 1 && same_mistake(other.front(), best)) same.push_back(other);
  }
  const Candidates local = ranked(extended(found.mistakes, same), scope.slots, found.mistakes);
  if (local.empty() || !explains(local.front(), scope.slots)) return false;
  next.insert(next.begin(), local.begin(), local.end());
  return true;
}

// Beside the best that is everywhere, another that is, if both together explain the scope. Of
// logits alone any two.
void DiagnoseSearch::add_pairs(const DiagnoseScope& scope, const Candidate& found,
                               Candidates& next) {
  if (few_ != nullptr) {
    const Candidates pairs = pairs_by_effects(scope);
    next.insert(next.begin(), pairs.begin(), pairs.end());
    if (!pairs.empty()) return;
  }
  const auto whole = std::ranges::find_if(next, [](const Candidate& candidate) {
    return std::ranges::all_of(candidate.mistakes,
                               [](const MistakeChoice& m) { return m.where.empty(); });
  });
  if (whole == next.end() || whole->score.cost >= found.score.cost) return;
  if (few_ != nullptr && !few_serve(whole->mistakes)) return;  // those were tried
  const Candidates pairs =
      ranked(extended(whole->mistakes, scope.likely), scope.slots, whole->mistakes);
  if (pairs.empty() || !explains(pairs.front(), scope.slots)) return;
  next.insert(next.begin(), pairs.begin(), pairs.end());
}

// One mistake after another. Of a scope that is far off, two that are everywhere come after those
// in one place, which are quickly screened and do not explain it by chance.
DiagnoseSearch::Candidate DiagnoseSearch::one_by_one(const DiagnoseScope& scope,
                                                     Candidates& singles) {
  Candidate found{{}, full_->base_score(scope.slots)};
  for (std::size_t round = 0; round < kMostMistakes; ++round) {
    Candidates next;
    bool enough = round == 0 && told_by_few(scope, next);
    if (!enough) {
      next = ranked(extended(found.mistakes, scope.likely), scope.slots, found.mistakes);
      enough = !next.empty() && explains(next.front(), scope.slots);
    }
    // Most of it explained by one everywhere: another everywhere is likelier than one in one place.
    const bool half = !next.empty() && next.front().score.loss < 0.5 * found.score.loss;
    const bool local_first = found.score.loss > kFarOff && !half;
    if (!enough && half && add_in_one_place(scope, found, next)) enough = true;
    // An ε that explains all still has those in one place to compare with, but no pairs.
    const bool epsilon = !enough && add_numbers(scope, found, false, next);
    for (const bool local : {local_first, !local_first}) {
      if (enough || scope.others.empty()) break;
      if (local) {
        add_local(scope, found, next);
      } else if (round == 0 && !next.empty() && !epsilon) {
        add_pairs(scope, found, next);
      } else {
        continue;
      }
      enough = !next.empty() && explains(next.front(), scope.slots);
    }
    if (!enough && !epsilon) add_numbers(scope, found, true, next);
    if (next.empty() || next.front().score.cost + kWorthwhile > found.score.cost) break;
    if (round == 0) singles = next;
    found = next.front();
    if (explains(found, scope.slots)) break;
  }
  prune(found, scope.slots);
  return found;
}

// Multiplications of trying sets one after another on the whole model.
double DiagnoseSearch::effort(const std::vector<Mistakes>& sets) const {
  double rows = 0.0;
  for (const Mistakes& set : sets) {
    rows += static_cast<double>(screen(looks_ahead(set)).replay().problem().rows());
  }
  const DiagnoseModel& model = full_replay_->model();
  const double width = static_cast<double>(model.width());
  const double weights = width * (4.0 * width + 2.0 * static_cast<double>(model.inner()));
  return rows * weights * static_cast<double>(model.layers());
}

// Whether `other` leaves no stage noticeably further off than `found` does.
bool DiagnoseSearch::as_good(const Mistakes& other, const Mistakes& found,
                             std::span<const Index> slots) const {
  const Trace theirs = full_->trace(other), ours = full_->trace(found);
  return std::ranges::all_of(slots, [&](Index slot) {
    const double floor = full_->floor()[static_cast<std::size_t>(slot)];
    return theirs.at(slot).computed != nullptr &&
           theirs.residual(slot) <= 1.25 * ours.residual(slot) + 0.05 * floor;
  });
}

void DiagnoseSearch::compare(const DiagnoseScope& scope, const Candidate& found, Explanation& out) {
  constexpr double kNear = 2.0;
  const auto own = names_of(with_zero_mask_named(found.mistakes, kNoNumber));
  double runner_up = full_->base_score(scope.slots).loss;
  for (const Candidate& other : seen_) {
    // A larger set that does no better is no other explanation.
    const auto names = names_of(with_zero_mask_named(other.mistakes, kNoNumber));
    if (std::ranges::includes(names, own) || other.mistakes.size() > found.mistakes.size()) {
      continue;
    }
    runner_up = std::min(runner_up, other.score.loss);
    if (other.mistakes.size() == found.mistakes.size() &&
        other.score.loss <= kNear * found.score.loss &&
        as_good(other.mistakes, found.mistakes, scope.slots)) {
      out.alternatives.push_back(other.mistakes);
    }
  }
  out.margin = runner_up / std::max(found.score.loss, 1e-300);
}

// What explains another layer may explain this one.
std::optional<Explanation> DiagnoseSearch::same_as(const Mistakes& mistakes,
                                                   const DiagnoseScope& scope) {
  if (mistakes.empty()) return std::nullopt;
  Candidate found{full_->fitted(mistakes, scope.slots), {}};
  found.score = full_->score(full_->trace(found.mistakes), scope.slots);
  if (!explains(found, scope.slots)) return std::nullopt;
  prune(found, scope.slots);
  Explanation out;
  out.mistakes = found.mistakes;
  out.explained = true;
  out.margin = full_->base_score(scope.slots).loss / std::max(found.score.loss, 1e-300);
  return out;
}

Explanation DiagnoseSearch::explain(const DiagnoseScope& whole) {
  seen_.clear();
  const DiagnoseScope scope = focused(whole, departing({}, whole.slots, doubtful_times_));
  Explanation out;
  Candidates singles;
  Candidate found = one_by_one(scope, singles);
  if (!explains(found, scope.slots)) {
    found = with_pairs(scope, found, singles);
    prune(found, scope.slots);
  }
  try_epsilon(scope, found);
  out.explained = explains(found, scope.slots);
  const Mistakes zero = with_zero_mask_named(found.mistakes, kNoNumber);
  if (as_good(zero, found.mistakes, scope.slots)) found.mistakes = zero;
  out.mistakes = found.mistakes;
  if (!found.mistakes.empty()) compare(scope, found, out);
  return out;
}

}  // namespace prenorm
