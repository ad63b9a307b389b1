// Two mistakes that show in the same stage: what DiagnoseSearch does where one after another fails.
#include <algorithm>
#include <string>
#include <utility>

#include "prenorm/study/diagnose_places.h"
#include "prenorm/study/diagnose_search.h"

namespace prenorm {

// Every two of those that are likely, beside the start.
std::vector<Mistakes> DiagnoseSearch::pairs_of(const DiagnoseScope& scope,
                                               const Mistakes& start) const {
  std::vector<Mistakes> pairs;
  const std::vector<Mistakes> first = extended(start, scope.likely);
  for (std::size_t i = 0; i < first.size(); ++i) {
    const std::vector<Mistakes> later(scope.likely.begin() + static_cast<std::ptrdiff_t>(i + 1),
                                      scope.likely.end());
    const std::vector<Mistakes> more = extended(first[i], later);
    pairs.insert(pairs.end(), more.begin(), more.end());
  }
  return pairs;
}

DiagnoseSearch::Candidate DiagnoseSearch::by_pairs(const DiagnoseScope& scope,
                                                   const Mistakes& start,
                                                   const Candidates& singles) {
  constexpr std::size_t kBeam = 4;
  Candidate best{start, full_->score(full_->trace(start), scope.slots)};
  const auto take = [&](const Candidates& found) {
    if (!found.empty() && found.front().score.cost < best.score.cost) best = found.front();
    return !found.empty() && explains(best, scope.slots);
  };
  std::vector<Mistakes> all = scope.likely;
  all.insert(all.end(), scope.others.begin(), scope.others.end());
  for (std::size_t i = 0; i < std::min(kBeam, singles.size()); ++i) {
    if (take(ranked(extended(singles[i].mistakes, all), scope.slots, singles[i].mistakes)))
      return best;
  }
  const std::vector<Mistakes> pairs = pairs_of(scope, start);
  if (effort(pairs) > kMostEffort) {
    if (progress_) progress_("too large a model to try every pair of mistakes");
    return best;
  }
  if (progress_ && pairs.size() > 500) {
    progress_("no single mistake explains it: trying " + std::to_string(pairs.size()) + " pairs");
  }
  patient_ = true;
  take(ranked(pairs, scope.slots));
  patient_ = false;
  return best;
}

// The stages that are off by more than `times` their rounding even with these mistakes.
std::vector<Index> DiagnoseSearch::departing(const Mistakes& mistakes, std::span<const Index> slots,
                                             double times) const {
  std::vector<Index> bad;
  const Evaluation::Replayed* replayed = mistakes.empty() ? nullptr : &full_->replayed(mistakes);
  const Trace& found = replayed == nullptr ? full_->base() : replayed->trace;
  const std::vector<double>& floor = replayed == nullptr ? full_->floor() : replayed->floor;
  for (const Index slot : slots) {
    if (found.at(slot).computed == nullptr ||
        found.residual(slot) > times * times * floor[static_cast<std::size_t>(slot)]) {
      bad.push_back(slot);
    }
  }
  return bad;
}

// Only the sets that could change one of these stages.
DiagnoseScope DiagnoseSearch::focused(const DiagnoseScope& scope,
                                      std::span<const Index> bad) const {
  DiagnoseScope out = scope;
  const auto useless = [&](const Mistakes& mistakes) {
    return !may_change(full_replay_->stages(), mistakes, scope.slots, bad);
  };
  std::erase_if(out.likely, useless);
  std::erase_if(out.others, useless);
  return out;
}

// Two mistakes that show in the same stage: what was found elsewhere is kept.
DiagnoseSearch::Candidate DiagnoseSearch::with_pairs(const DiagnoseScope& scope,
                                                     const Candidate& found,
                                                     const Candidates& singles) {
  const std::vector<Index> bad = departing(found.mistakes, scope.slots, kCleanTimes);
  Mistakes start;
  for (const MistakeChoice& m : found.mistakes) {
    if (!may_change(full_replay_->stages(), {m}, scope.slots, bad)) start.push_back(m);
  }
  const bool alone = scope.slots.size() <= 1;
  Candidate pair = by_pairs(focused(scope, bad), start, alone ? singles : Candidates{});
  return pair.score.cost + kWorthwhile < found.score.cost || explains(pair, scope.slots) ? pair
                                                                                         : found;
}

}  // namespace prenorm
