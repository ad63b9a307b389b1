// The numbers of mistakes that have one, ε and the mask's: which of them DiagnoseSearch looks for,
// and where they are.
#include <algorithm>
#include <cmath>
#include <utility>

#include "prenorm/study/diagnose_crowd.h"
#include "prenorm/study/diagnose_places.h"
#include "prenorm/study/diagnose_search.h"

namespace prenorm {

bool any_continuous(const Mistakes& mistakes) {
  return std::ranges::any_of(mistakes, has_continuous_value);
}

bool has_mask_number(const Mistakes& set) {
  return std::ranges::count_if(set, has_continuous_value) == 1 &&
         std::ranges::any_of(set, [](auto& m) { return m.name == "attention.mask-finite"; });
}

// Whether the mask's number is none of those that are tried.
bool is_fitted(const Mistakes& set) {
  return std::ranges::any_of(set, [](const MistakeChoice& m) {
    return m.name == "attention.mask-finite" &&
           std::ranges::find(mask_numbers(), *m.number) == mask_numbers().end();
  });
}

// What a fit comes to from there, if that explains all, or nearly all of what was `left`: nothing
// does by chance.
std::optional<Mistakes> DiagnoseSearch::fit_that_explains(const Evaluation& evaluation,
                                                          const Mistakes& set,
                                                          std::span<const Index> slots,
                                                          double left) {
  constexpr double kExplained = 4.0, kNearlyAll = 14.0;
  const std::optional<Mistakes> found = evaluation.roughly_fitted(set, slots);
  if (!found) return std::nullopt;
  const Score score = evaluation.score(evaluation.trace(*found), slots);
  const bool all = score.loss <= kExplained * static_cast<double>(slots.size());
  return all || score.cost < left - kNearlyAll ? found : std::nullopt;
}

// A number that is fitted takes some of the rounding with it, and more where few numbers carry most
// of that: it must win so much more.
double DiagnoseSearch::price_of(const Mistakes& mistakes) const {
  constexpr double kPrice = 0.6, kPriceNarrow = 1.6;
  if (!any_continuous(mistakes)) return 0.0;
  return numbers_ == reference::Numbers::kFloat32 ? kPrice : kPriceNarrow;
}

// The most promising few of those that have a number to be found.
std::vector<Mistakes> DiagnoseSearch::best_fits(const std::vector<Mistakes>& sets,
                                                std::span<const Index> slots) const {
  // Beside another mistake the numbers wait for each other: what is nearest before the fit may not
  // be after it.
  const bool alone = sets.empty() || sets.front().size() == 1;
  const std::size_t most = alone ? 3 : 4;
  if (sets.size() <= most) return sets;
  std::vector<std::pair<double, std::size_t>> order;
  for (const bool ahead : {false, true}) {
    std::vector<Mistakes> part;
    std::vector<std::size_t> which;
    for (std::size_t i = 0; i < sets.size(); ++i) {
      if (looks_ahead(sets[i]) != ahead) continue;
      part.push_back(sets[i]);
      which.push_back(i);
    }
    const std::vector<Score> scores = screen(ahead).scores(part, slots);
    for (std::size_t k = 0; k < part.size(); ++k) order.emplace_back(scores[k].cost, which[k]);
  }
  std::ranges::sort(order);
  std::vector<Mistakes> out;
  for (std::size_t i = 0; i < std::min(most, order.size()); ++i) {
    out.push_back(sets[order[i].second]);
  }
  return out;
}

// Sets with their numbers where they leave least, but those that come nowhere near `best`, the loss
// of what has none to be found.
std::vector<Mistakes> DiagnoseSearch::fitted_of(const std::vector<Mistakes>& fits,
                                                std::span<const Index> slots, double best) const {
  // Steps are as Newton's: after one of a hundredth the rest is a hundredth of that.
  constexpr double kRoughly = 1e-2;
  constexpr int kMostSteps = 5;
  std::vector<Mistakes> fitted;
  const MistakeChoice* enough = nullptr;  // what a fit has explained: other numbers need no other
  const bool subtle = few_ && full_->base_score(slots).loss < kFarOff;
  for (const Mistakes& set : best_fits(fits, slots)) {
    if (enough != nullptr && same_mistake(set.back(), *enough) && set.back().where == enough->where)
      continue;
    const bool ahead = looks_ahead(set);
    const Evaluation& on = screen(ahead);
    if (few_ && ahead && !subtle && has_mask_number(set)) {
      if (is_fitted(set)) {
        fitted.push_back(with_zero_mask_named(on.fitted(set, slots, kMostSteps, kRoughly)));
      } else if (const auto rough = on.roughly_fitted(set, slots)) {
        fitted.push_back(with_zero_mask_named(*rough));
      }
      continue;
    }
    // What a fit wins lies along the slope; one that is not to blame has hardly any of the residual
    // along it.
    constexpr double kHopeless = 0.7, kFar = 1e3;
    const auto [here, attainable] = on.prospect(set, slots);
    const bool explained = here <= 4.0 * static_cast<double>(slots.size());
    const bool hopeless = !explained && attainable > kHopeless * here;
    if ((few_ && attainable >= here && !explained) || attainable > 100.0 * best + kFar ||
        (hopeless && ((ahead && subtle) || here > kFar)))
      continue;
    const double explained_loss = few_ ? 3.0 : 1.5;
    const Mistakes found = on.fitted(set, slots, ahead ? kMostSteps : 8, kRoughly);
    const double left = on.score(on.trace(found), slots).loss;
    if (left <= explained_loss * static_cast<double>(slots.size())) enough = &set.back();
    fitted.push_back(with_zero_mask_named(found));
  }
  return fitted;
}

}  // namespace prenorm
