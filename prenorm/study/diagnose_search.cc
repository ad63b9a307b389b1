#include "prenorm/study/diagnose_search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string_view>
#include <utility>

namespace prenorm {
namespace {

// Beyond so many a search is worth its time: of a type of few bits the rounding is known better.
constexpr double kDoubtful = 2.0, kDoubtfulNarrow = 1.2;
constexpr std::size_t kMostMistakes = 6;
constexpr Index kMostRows = 64, kPrefix = 8;
constexpr std::size_t kRefined = 12;

// Whether an output may depend on later tokens: these need whole sequences.
bool looks_ahead(const Mistakes& mistakes) {
  static constexpr std::array<std::string_view, 9> kNames = {"norm.axis",
                                                             "attention.no-mask",
                                                             "attention.mask-zero",
                                                             "attention.mask-finite",
                                                             "attention.mask-shifted",
                                                             "attention.mask-inverted",
                                                             "attention.softmax-axis",
                                                             "attention.no-split-transpose",
                                                             "attention.no-merge-transpose"};
  return std::ranges::any_of(mistakes, [](const MistakeChoice& m) {
    return std::ranges::find(kNames, m.name) != kNames.end();
  });
}

bool any_continuous(const Mistakes& mistakes) {
  return std::ranges::any_of(mistakes, has_continuous_value);
}

constexpr double kNoNumber = 1.0;  // nobody masks with a number below one that is not zero

// Where the mask's number is zero, it has a name of its own.
Mistakes with_zero_mask_named(Mistakes mistakes, double zero = 0.02) {
  for (MistakeChoice& m : mistakes) {
    if (m.name != "attention.mask-finite" || std::abs(*m.number) > zero) continue;
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
    : run_(run),
      progress_(std::move(progress)),
      doubtful_times_(numbers == reference::Numbers::kFloat32 ? kDoubtful : kDoubtfulNarrow) {
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
  return departing({}, slots, doubtful_times_).empty();
}

bool DiagnoseSearch::explains(const Candidate& candidate, std::span<const Index> slots) const {
  return full_->explains(candidate.mistakes, slots, kCleanTimes);
}

// Where sets are tried first: the first tokens, or a whole sequence where later ones matter.
const Evaluation& DiagnoseSearch::screen(bool ahead) const {
  if (prefix_ && !ahead) return *prefix_;
  return sequence_ ? *sequence_ : *full_;
}

// By how much each set lowers the cost, on as few tokens as show it.
std::vector<double> DiagnoseSearch::screened(const std::vector<Mistakes>& sets,
                                             std::span<const Index> slots) const {
  std::vector<double> gains(sets.size(), -1e9);
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
    bool enough = false;
    for (std::size_t i = 0; i < part.size(); ++i) {
      gains[places[i]] = base - scores[i].cost;
      // Down to the rounding on the first tokens, where it was far from it.
      enough = enough || (base - scores[i].cost > 10.0 &&
                          scores[i].loss <= 3.0 * static_cast<double>(slots.size()));
    }
    return enough;
  };
  if (!on(screen(false), false)) on(screen(true), true);
  return gains;
}

// Of many sets those that are worth a closer look.
std::vector<Mistakes> DiagnoseSearch::promising(const std::vector<Mistakes>& sets,
                                                std::span<const Index> slots) const {
  constexpr double kFarBehind = 14.0;  // of gain: a residual that is 16,000 times as large
  constexpr std::size_t kFits = 4;
  const std::vector<double> gains = screened(sets, slots);
  std::vector<std::size_t> order(sets.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, [&](auto a, auto b) { return gains[a] > gains[b]; });
  std::vector<Mistakes> few;
  std::size_t fits = 0, plain = 0;
  for (const std::size_t i : order) {
    if (gains[i] < -1e8) continue;
    const bool near = gains[i] > gains[order.front()] - kFarBehind;
    if (any_continuous(sets[i])) {
      // A fit may gain more than what a grid shows.
      if (fits++ >= kFits) continue;
    } else if (plain++ >= (near ? kRefined : 2)) {
      continue;
    }
    few.push_back(sets[i]);
  }
  return few;
}

DiagnoseSearch::Candidates DiagnoseSearch::ranked(const std::vector<Mistakes>& sets,
                                                  std::span<const Index> slots) {
  std::vector<Mistakes> few =
      (prefix_ || sequence_) && sets.size() > kRefined ? promising(sets, slots) : sets;
  std::vector<Mistakes> plain, fits;
  for (Mistakes& set : few) (any_continuous(set) ? fits : plain).push_back(std::move(set));
  Candidates out;
  const auto better = [](const Candidate& a, const Candidate& b) {
    return a.score.cost < b.score.cost;
  };
  const auto score = [&](const std::vector<Mistakes>& part) {
    const std::vector<Score> scores = full_->scores(part, slots);
    for (std::size_t i = 0; i < part.size(); ++i) {
      out.push_back({part[i], scores[i]});
      out.back().score.cost += price_of(part[i]);
    }
    std::ranges::stable_sort(out, better);
  };
  score(plain);
  const double best = out.empty() ? 1e30 : out.front().score.loss;
  std::vector<Mistakes> fitted;
  for (const Mistakes& set : best_fits(fits, slots)) {
    const Evaluation& on = screen(looks_ahead(set));
    // What a fit wins lies along the slope; one that is not to blame has hardly any of the residual
    // along it.
    constexpr double kHopeless = 0.7, kFar = 1e3;
    const auto [here, attainable] = on.prospect(set, slots);
    if (attainable > 100.0 * best + kFar || (here > kFar && attainable > kHopeless * here)) continue;
    fitted.push_back(with_zero_mask_named(on.fitted(set, slots, 8)));
  }
  score(fitted);
  // The few tokens of the screen leave a number open that all of them tell.
  if (!out.empty() && any_continuous(out.front().mistakes)) {
    Candidate& first = out.front();
    first.mistakes = with_zero_mask_named(full_->fitted(first.mistakes, slots));
    first.score = full_->score(full_->trace(first.mistakes), slots);
    first.score.cost += price_of(first.mistakes);
    std::ranges::stable_sort(out, better);
  }
  remember(out);
  return out;
}

// A number that is fitted takes some of the rounding with it, and more where few numbers carry most
// of that: it must win so much more.
double DiagnoseSearch::price_of(const Mistakes& mistakes) const {
  constexpr double kPrice = 0.6, kPriceNarrow = 1.6;
  if (!any_continuous(mistakes)) return 0.0;
  return doubtful_times_ < kDoubtful ? kPriceNarrow : kPrice;
}

// The most promising few of those that have a number to be found.
std::vector<Mistakes> DiagnoseSearch::best_fits(const std::vector<Mistakes>& sets,
                                                std::span<const Index> slots) const {
  constexpr std::size_t kMost = 3;
  if (sets.size() <= kMost) return sets;
  std::vector<std::pair<double, std::size_t>> order;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    const Evaluation& on = screen(looks_ahead(sets[i]));
    order.emplace_back(on.score(on.trace(sets[i]), slots).cost, i);
  }
  std::ranges::sort(order);
  std::vector<Mistakes> out;
  for (std::size_t i = 0; i < kMost; ++i) out.push_back(sets[order[i].second]);
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

// Beside what was found, one more in one place.
void DiagnoseSearch::add_local(const DiagnoseScope& scope, const Candidate& found,
                               Candidates& next) {
  const Candidates local = ranked(extended(found.mistakes, scope.others), scope.slots);
  // The same mistake in all layers is the simpler explanation.
  const bool better =
      next.empty() ||
      (!local.empty() && local.front().score.cost + kWorthwhile < next.front().score.cost);
  next.insert(better ? next.begin() : next.end(), local.begin(), local.end());
}

// Beside the best that is everywhere, another that is, if both together explain the scope.
void DiagnoseSearch::add_pairs(const DiagnoseScope& scope, Candidates& next) {
  const auto whole = std::ranges::find_if(next, [](const Candidate& candidate) {
    return std::ranges::all_of(candidate.mistakes,
                               [](const MistakeChoice& m) { return m.where.empty(); });
  });
  if (whole == next.end()) return;
  const Candidates pairs = ranked(extended(whole->mistakes, scope.likely), scope.slots);
  if (pairs.empty() || !explains(pairs.front(), scope.slots)) return;
  next.insert(next.begin(), pairs.begin(), pairs.end());
}

// One mistake after another. Of a scope that is far off, two that are everywhere come after those in
// one place, which are quickly screened and do not explain it by chance.
DiagnoseSearch::Candidate DiagnoseSearch::one_by_one(const DiagnoseScope& scope,
                                                     Candidates& singles) {
  Candidate found{{}, full_->base_score(scope.slots)};
  for (std::size_t round = 0; round < kMostMistakes; ++round) {
    Candidates next = ranked(extended(found.mistakes, scope.likely), scope.slots);
    bool enough = !next.empty() && explains(next.front(), scope.slots);
    const bool local_first = found.score.loss > kFarOff;
    for (const bool local : {local_first, !local_first}) {
      if (enough || scope.others.empty()) break;
      if (local) {
        add_local(scope, found, next);
      } else if (round == 0 && !next.empty()) {
        add_pairs(scope, next);
      }
      enough = !next.empty() && explains(next.front(), scope.slots);
    }
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
  const auto own = names_of(found.mistakes);
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
  out.explained = explains(found, scope.slots);
  const Mistakes zero = with_zero_mask_named(found.mistakes, kNoNumber);
  if (as_good(zero, found.mistakes, scope.slots)) found.mistakes = zero;
  out.mistakes = found.mistakes;
  if (!found.mistakes.empty()) compare(scope, found, out);
  return out;
}

}  // namespace prenorm
