#include "prenorm/study/diagnose_search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string_view>
#include <utility>

namespace prenorm {
namespace {

constexpr double kCleanTimes = 2.5;  // a clean stage's residual is within so many roundings
constexpr double kWorthwhile = 0.9;  // of cost: about half of one stage's residual
constexpr std::size_t kMostMistakes = 6;
constexpr Index kMostRows = 256, kPrefix = 16;
constexpr std::size_t kRefined = 12;

// Whether an output may depend on later tokens: these need whole sequences.
bool looks_ahead(const Mistakes& mistakes) {
  static constexpr std::array<std::string_view, 10> kNames = {"norm.axis",
                                                              "attention.no-mask",
                                                              "attention.mask-zero",
                                                              "attention.mask-finite",
                                                              "attention.mask-shifted",
                                                              "attention.mask-inverted",
                                                              "attention.softmax-axis",
                                                              "attention.no-split-transpose",
                                                              "attention.no-merge-transpose",
                                                              "attention.mask"};
  return std::ranges::any_of(mistakes, [](const MistakeChoice& m) {
    return std::ranges::find(kNames, m.name) != kNames.end();
  });
}

bool any_continuous(const Mistakes& mistakes) {
  return std::ranges::any_of(mistakes, has_continuous_value);
}

// Where the mask's number is zero, it has a name of its own.
Mistakes with_zero_mask_named(Mistakes mistakes) {
  constexpr double kZero = 0.02;
  for (MistakeChoice& m : mistakes) {
    if (m.name != "attention.mask-finite" || std::abs(*m.number) > kZero) continue;
    m.name = "attention.mask-zero";
    m.number.reset();
  }
  return mistakes;
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
    : run_(run), progress_(std::move(progress)) {
  const auto right = model.options();
  const auto make = [&](DiagnoseProblem part, auto& replay, auto& evaluation) {
    replay = std::make_unique<Replay>(run, model, std::move(part));
    evaluation = std::make_unique<Evaluation>(run, *replay, right, numbers);
  };
  const Index batch = std::clamp<Index>(kMostRows / problem.time, 1, problem.batch);
  make(problem.cropped(batch, problem.time), full_replay_, full_);
  if (batch > 1) make(problem.cropped(1, problem.time), sequence_replay_, sequence_);
  if (problem.time > kPrefix) make(problem.cropped(1, kPrefix), prefix_replay_, prefix_);
}

bool DiagnoseSearch::clean(std::span<const Index> slots) const {
  const Trace& base = full_->base();
  return std::ranges::all_of(slots, [&](Index slot) {
    return base.at(slot).computed != nullptr &&
           base.residual(slot) <=
               kCleanTimes * kCleanTimes * full_->floor()[static_cast<std::size_t>(slot)];
  });
}

bool DiagnoseSearch::explains(const Candidate& candidate, std::span<const Index> slots) const {
  return full_->explains(candidate.mistakes, slots, kCleanTimes);
}

// By how much each set lowers the cost, on as few tokens as show it.
std::vector<double> DiagnoseSearch::screened(const std::vector<Mistakes>& sets,
                                             std::span<const Index> slots) {
  std::vector<double> gains(sets.size());
  const auto on = [&](const Evaluation& evaluation, bool ahead) {
    std::vector<Mistakes> part;
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < sets.size(); ++i) {
      if (looks_ahead(sets[i]) != ahead) continue;
      part.push_back(sets[i]);
      places.push_back(i);
    }
    const double base = evaluation.base_score(slots).cost;
    const std::vector<Score> scores = evaluation.scores(part, slots);
    for (std::size_t i = 0; i < part.size(); ++i) gains[places[i]] = base - scores[i].cost;
  };
  on(sequence_ ? *sequence_ : *full_, true);
  on(prefix_ ? *prefix_ : sequence_ ? *sequence_ : *full_, false);
  return gains;
}

DiagnoseSearch::Candidates DiagnoseSearch::ranked(const std::vector<Mistakes>& sets,
                                                  std::span<const Index> slots) {
  std::vector<Mistakes> few = sets;
  if ((prefix_ || sequence_) && sets.size() > kRefined) {
    const std::vector<double> gains = screened(sets, slots);
    std::vector<std::size_t> order(sets.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::ranges::stable_sort(order, [&](auto a, auto b) { return gains[a] > gains[b]; });
    few.clear();
    std::size_t fits = 0;
    for (const std::size_t i : order) {
      const bool fit = any_continuous(sets[i]) && fits < 4;
      if (few.size() >= kRefined + fits && !fit) continue;
      few.push_back(sets[i]);
      fits += any_continuous(sets[i]);
    }
  }
  Candidates out;
  const std::vector<Score> scores = full_->scores(few, slots);
  for (std::size_t i = 0; i < few.size(); ++i) out.push_back({few[i], scores[i]});
  const auto better = [](const Candidate& a, const Candidate& b) {
    return a.score.cost < b.score.cost;
  };
  std::ranges::stable_sort(out, better);
  // The best of those that have a number to be found.
  std::size_t fitted = 0;
  for (std::size_t i = 0; i < out.size() && fitted < 6; ++i) {
    if (!any_continuous(out[i].mistakes)) continue;
    out[i].mistakes = with_zero_mask_named(full_->fitted(out[i].mistakes, slots));
    out[i].score = full_->score(full_->trace(out[i].mistakes), slots);
    ++fitted;
  }
  std::ranges::stable_sort(out, better);
  remember(out);
  return out;
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

DiagnoseSearch::Candidate DiagnoseSearch::one_by_one(const DiagnoseScope& scope,
                                                     Candidates& singles) {
  Candidate found{{}, full_->base_score(scope.slots)};
  for (std::size_t round = 0; round < kMostMistakes; ++round) {
    Candidates next = ranked(extended(found.mistakes, scope.likely), scope.slots);
    const bool enough = !next.empty() && explains(next.front(), scope.slots);
    if (!enough && !scope.others.empty()) {
      Candidates local = ranked(extended(found.mistakes, scope.others), scope.slots);
      // The same mistake in all layers is the simpler explanation.
      if (next.empty() ||
          (!local.empty() && local.front().score.cost + kWorthwhile < next.front().score.cost)) {
        next.insert(next.begin(), local.begin(), local.end());
      } else {
        next.insert(next.end(), local.begin(), local.end());
      }
    }
    if (next.empty() || next.front().score.cost + kWorthwhile > found.score.cost) break;
    if (round == 0) singles = next;
    found = next.front();
    if (explains(found, scope.slots)) break;
  }
  prune(found, scope.slots);
  return found;
}

DiagnoseSearch::Candidate DiagnoseSearch::by_pairs(const DiagnoseScope& scope,
                                                   const Candidates& singles) {
  constexpr std::size_t kBeam = 6;
  Candidate best{{}, full_->base_score(scope.slots)};
  const auto take = [&](const Candidates& found) {
    if (!found.empty() && found.front().score.cost < best.score.cost) best = found.front();
    return !best.mistakes.empty() && explains(best, scope.slots);
  };
  std::vector<Mistakes> all = scope.likely;
  all.insert(all.end(), scope.others.begin(), scope.others.end());
  for (std::size_t i = 0; i < std::min(kBeam, singles.size()); ++i) {
    if (take(ranked(extended(singles[i].mistakes, all), scope.slots))) return best;
  }
  std::vector<Mistakes> pairs;
  for (std::size_t i = 0; i < scope.likely.size(); ++i) {
    const std::vector<Mistakes> later(scope.likely.begin() + static_cast<std::ptrdiff_t>(i + 1),
                                      scope.likely.end());
    const std::vector<Mistakes> more = extended(scope.likely[i], later);
    pairs.insert(pairs.end(), more.begin(), more.end());
  }
  if (progress_)
    progress_("no single mistake explains it: trying " + std::to_string(pairs.size()) + " pairs");
  if (take(ranked(pairs, scope.slots))) return best;
  return best;
}

void DiagnoseSearch::compare(const DiagnoseScope& scope, const Candidate& found, Explanation& out) {
  constexpr double kSame = 1.25;
  const auto own = names_of(found.mistakes);
  double runner_up = full_->base_score(scope.slots).loss;
  for (const Candidate& other : seen_) {
    if (names_of(other.mistakes) == own) continue;
    // A larger set that does no better is no other explanation.
    const bool more = other.mistakes.size() > found.mistakes.size();
    if (more) continue;
    runner_up = std::min(runner_up, other.score.loss);
    if (other.mistakes.size() == found.mistakes.size() &&
        other.score.loss <= kSame * found.score.loss) {
      out.alternatives.push_back(other.mistakes);
    }
  }
  out.margin = runner_up / std::max(found.score.loss, 1e-300);
}

Explanation DiagnoseSearch::explain(const DiagnoseScope& scope) {
  seen_.clear();
  Explanation out;
  Candidates singles;
  Candidate found = one_by_one(scope, singles);
  out.explained = explains(found, scope.slots);
  if (!out.explained && scope.slots.size() <= 2) {
    const Candidate pair = by_pairs(scope, singles);
    if (pair.score.cost + kWorthwhile < found.score.cost || explains(pair, scope.slots)) {
      found = pair;
      prune(found, scope.slots);
      out.explained = explains(found, scope.slots);
    }
  }
  out.mistakes = found.mistakes;
  if (!found.mistakes.empty()) compare(scope, found, out);
  return out;
}

}  // namespace prenorm
