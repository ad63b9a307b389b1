// Numbers that no coarse scale of hypotheses is near to: an ε that is nearly the model's own, a
// mask of −5. What DiagnoseSearch does with diagnose_numbers.h.
#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <utility>

#include "prenorm/study/diagnose_crowd.h"
#include "prenorm/study/diagnose_numbers.h"
#include "prenorm/study/diagnose_search.h"

namespace prenorm {
namespace {

constexpr std::string_view kEpsilon = "norm.eps-value", kMask = "attention.mask-finite";

// What an ε may be taken for where little is to be seen.
constexpr std::array<std::string_view, 3> kLikeEpsilon = {"norm.eps-outside-root",
                                                          "norm.eps-misplaced", "norm.ddof"};

}  // namespace

// Sets with one more mistake of that name, one for each place.
std::vector<Mistakes> DiagnoseSearch::places_of_number(const DiagnoseScope& scope,
                                                       const Mistakes& start,
                                                       std::string_view name) const {
  std::vector<Mistakes> by, out;
  std::set<std::vector<std::string>> seen;
  for (const auto* part : {&scope.likely, &scope.others}) {
    for (const Mistakes& more : *part) {
      std::vector<std::string> places;
      for (const MistakeChoice& m : more) {
        if (m.name == name) places.push_back(m.where);
      }
      if (places.size() == more.size() && seen.insert(places).second) by.push_back(more);
    }
  }
  return extended(start, by);
}

// Where the numbers of these leave least, the best few first.
DiagnoseSearch::Candidates DiagnoseSearch::with_numbers(std::vector<Mistakes> sets,
                                                        const Mistakes& start,
                                                        std::span<const Index> slots) const {
  constexpr double kWorth = 0.5, kFarBehind = 30.0, kRounding = 4.0;
  constexpr std::size_t kMost = 3;
  Candidates out;
  if (sets.empty()) return out;
  const bool ahead = std::ranges::any_of(sets, looks_ahead);
  const Evaluation& on = screen(ahead);
  const Score base = on.base_score(slots);
  const NumberSearch search(run_, on, slots, start, screening_arithmetic(base, slots.size()));
  const double count = static_cast<double>(slots.size());
  // The most promising, and of these again with a finer scale.
  std::vector<NumberSearch::Found> found;
  for (const bool fine : {false, true}) {
    found = search.coarse(sets, fine);
    std::ranges::sort(found, {}, &NumberSearch::Found::loss);
    const double most = std::min(kWorth * search.loss() + kRounding * count,
                                 kFarBehind * (found.front().loss + kRounding * count));
    sets.clear();
    std::erase_if(found, [&](const auto& f) { return f.loss > most || f.loss >= search.loss(); });
    for (const auto& f : found) {
      if (sets.size() < kMost) sets.push_back(f.set);
    }
    if (sets.empty()) return out;
  }
  for (std::size_t i = 0; i < std::min(kMost, found.size()); ++i) {
    const Mistakes set = with_zero_mask_named(full_->fitted(search.fine(found[i]), slots));
    out.push_back({set, full_->score(full_->trace(set), slots)});
    out.back().score.cost += price_of(set);
  }
  std::ranges::stable_sort(out, {}, [](const Candidate& c) { return c.score.cost; });
  return out;
}

// Beside what was found, one more mistake with a number: ε, or the mask's. Whether that explains
// the scope.
bool DiagnoseSearch::add_numbers(const DiagnoseScope& scope, const Candidate& found, bool masks,
                                 Candidates& next) {
  if (numbers_ != reference::Numbers::kFloat32) return false;  // too little of them is seen
  const Candidates more =
      with_numbers(places_of_number(scope, found.mistakes, masks ? kMask : kEpsilon),
                   found.mistakes, scope.slots);
  remember(more);
  if (more.empty()) return false;
  if (!next.empty() && more.front().score.cost + kWorthwhile > next.front().score.cost)
    return false;
  next.insert(next.begin(), more.begin(), more.end());
  return explains(next.front(), scope.slots);
}

// In place of what may be taken for another ε, that ε, where it leaves less.
void DiagnoseSearch::try_epsilon(const DiagnoseScope& scope, Candidate& found) {
  if (numbers_ != reference::Numbers::kFloat32) return;
  for (std::size_t i = 0; i < found.mistakes.size(); ++i) {
    const MistakeChoice& m = found.mistakes[i];
    if (std::ranges::find(kLikeEpsilon, m.name) == kLikeEpsilon.end()) continue;
    Mistakes start = found.mistakes;
    start.erase(start.begin() + static_cast<std::ptrdiff_t>(i));
    if (std::ranges::any_of(start, [](const auto& o) { return o.name == kEpsilon; })) continue;
    const double own = full_replay_->model().settings.eps;
    const Mistakes set =
        extended(start, {{{.name = std::string(kEpsilon), .where = m.where, .number = 2 * own}}})
            .front();
    const Candidates other = with_numbers({set}, start, scope.slots);
    remember(other);
    if (!other.empty() && other.front().score.cost < found.score.cost) {
      found = other.front();
      return;
    }
  }
}

}  // namespace prenorm
