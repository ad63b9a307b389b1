// Which of many sets of mistakes are worth a replay of all rows: what DiagnoseSearch tries first,
// on as few tokens as show it.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "prenorm/study/diagnose_crowd.h"
#include "prenorm/study/diagnose_places.h"
#include "prenorm/study/diagnose_search.h"

namespace prenorm {
namespace {

bool any_continuous(const Mistakes& mistakes) {
  return std::ranges::any_of(mistakes, has_continuous_value);
}

// What a fit comes to from there, if that explains all, or nearly all of what was `left`: nothing
// does by chance.
std::optional<Mistakes> fit_that_explains(const Evaluation& evaluation, const Mistakes& set,
                                          std::span<const Index> slots, double left) {
  constexpr double kRoughly = 1e-2, kExplained = 4.0, kNearlyAll = 20.0;
  const Mistakes found = evaluation.fitted(set, slots, 5, kRoughly);
  const Score score = evaluation.score(evaluation.trace(found), slots);
  const bool all = score.loss <= kExplained * static_cast<double>(slots.size());
  return all || score.cost < left - kNearlyAll ? std::optional(found) : std::nullopt;
}

// The part of the last mistake's name that those have in common which may stand for each other.
std::string kind_of(const Mistakes& set) {
  const std::string& name = set.back().name;
  return name.substr(0, name.find('-'));
}

}  // namespace

Mistakes with_zero_mask_named(Mistakes mistakes, double zero) {
  for (MistakeChoice& m : mistakes) {
    if (m.name != "attention.mask-finite" || std::abs(*m.number) > zero) continue;
    m.name = "attention.mask-zero";
    m.number.reset();
  }
  return mistakes;
}

// Where sets are tried first: the first tokens, or a whole sequence where later ones matter.
const Evaluation& DiagnoseSearch::screen(bool ahead) const {
  if (prefix_ && !ahead) return *prefix_;
  return sequence_ ? *sequence_ : *full_;
}

// The quickest arithmetic whose own rounding does not show in what is left to be explained.
Arithmetic DiagnoseSearch::screening_arithmetic(const Score& base, std::size_t slots) const {
  constexpr double kFar = 8.0;  // of loss
  const bool narrow = numbers_ != reference::Numbers::kFloat32;
  const bool quick = narrow || base.loss > kFar * static_cast<double>(slots);
  return quick ? Arithmetic::kQuick : Arithmetic::kDouble;
}

double DiagnoseSearch::cost_of(const Evaluation& evaluation, std::span<const Index> slots,
                               const Mistakes& start) {
  if (start.empty()) return evaluation.base_score(slots).cost;
  return evaluation.scores(std::span(&start, 1), slots).front().cost;
}

const DiagnoseSearch::Alone* DiagnoseSearch::alone(const MistakeChoice& mistake) const {
  const auto found = alone_.find(fingerprint(with_mistakes(full_->right(), {mistake})));
  return found == alone_.end() ? nullptr : &found->second;
}

// What moves the logits about as far as is left is likelier, and then what explains more alone. Of
// pairs what both explain counts.
std::vector<std::size_t> DiagnoseSearch::likely_first(const std::vector<Mistakes>& sets,
                                                      std::vector<std::size_t> which,
                                                      const Mistakes& start, double left) const {
  // Of cost. What moves them sixteen times as far, or a sixteenth, is not tried at all.
  constexpr double kAboutAsFar = 4.0, kTooFarApart = 8.0;
  std::map<std::size_t, std::pair<double, double>> order;
  for (const std::size_t i : which) {
    double gain = 0.0, apart = 0.0;
    for (std::size_t k = start.size(); k < sets[i].size(); ++k) {
      const Alone* known = alone(sets[i][k]);
      gain += known == nullptr ? kNoGain : known->gain;
      const bool told = known != nullptr && few_ != nullptr;  // of logits alone
      if (told && !start.empty()) apart = std::abs(known->moved - left);
    }
    order[i] = {std::floor(apart / kAboutAsFar), -gain};
    if (apart > kTooFarApart) order.erase(i);
  }
  std::erase_if(which, [&](auto i) { return !order.contains(i); });
  std::ranges::stable_sort(which, [&](auto a, auto b) { return order[a] < order[b]; });
  return which;
}

// Beside other mistakes, a set that explains all ends the screen; what is of its kind is tried all
// the same, for it may explain as much.
bool DiagnoseSearch::screen_on(const Evaluation& evaluation, const std::vector<Mistakes>& sets,
                               std::vector<std::size_t> which, std::span<const Index> slots,
                               const Mistakes& start, Screened& out) const {
  if (which.empty()) return out.enough;
  const bool singles = start.empty() && (!few_ || sets[which.front()].size() == 1);
  const std::size_t at_once = singles ? which.size() : 10;
  const Score base = evaluation.base_score(slots);
  double left = base.cost;
  double fit_gain = 2.0;  // of a number on the grid, beyond which it is looked for at once
  if (!singles) {
    left = cost_of(evaluation, slots, start);
    which = likely_first(sets, std::move(which), start, left);
  }
  const Arithmetic arithmetic = screening_arithmetic(base, slots.size());
  std::set<std::string> kinds;  // of what explains all
  for (std::size_t first = 0; first < which.size(); first += at_once) {
    std::vector<std::size_t> now;
    std::vector<Mistakes> part;
    for (std::size_t k = first; k < std::min(first + at_once, which.size()); ++k) {
      if (!kinds.empty() && !kinds.contains(kind_of(sets[which[k]]))) continue;
      now.push_back(which[k]);
      part.push_back(sets[which[k]]);
    }
    const std::vector<Score> scores = evaluation.scores(part, slots, start, arithmetic);
    std::size_t best_fit = now.size();
    for (std::size_t k = 0; k < now.size(); ++k) {
      out.gains[now[k]] = base.cost - scores[k].cost;
      out.moved[now[k]] = scores[k].moved;
      if (is_enough(scores[k], base, slots.size(), arithmetic)) kinds.insert(kind_of(part[k]));
      if (singles || !few_ || !any_continuous(part[k]) || left - scores[k].cost < fit_gain)
        continue;
      fit_gain = left - scores[k].cost;
      best_fit = k;
    }
    if (best_fit == now.size() || !kinds.empty()) continue;
    out.fit = fit_that_explains(evaluation, part[best_fit], slots, left);
    if (out.fit) kinds.insert(kind_of(*out.fit));
  }
  out.enough = out.enough || !kinds.empty();
  return out.enough;
}

// Which sets hold a mistake that alone moves the logits by a hundred times what is left to be
// explained, before and after the start: no other makes up for that.
std::vector<bool> DiagnoseSearch::too_large(const std::vector<Mistakes>& sets,
                                            std::span<const Index> slots,
                                            const Mistakes& start) const {
  constexpr double kTooLarge = 13.3;  // of cost, 2 log₂ 100
  std::vector<bool> out(sets.size());
  if (slots.size() != 1) return out;
  const double before = full_->base_score(slots).cost;
  const double least = std::min(0.0, before - cost_of(*full_, slots, start)) - kTooLarge;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    for (std::size_t k = start.size(); k < sets[i].size() && sets[i].size() > 1; ++k) {
      const Alone* known = alone(sets[i][k]);
      out[i] = out[i] || (known != nullptr && known->gain < least);
    }
  }
  return out;
}

DiagnoseSearch::Screened DiagnoseSearch::screened(const std::vector<Mistakes>& sets,
                                                  std::span<const Index> slots,
                                                  const Mistakes& start) {
  Screened out{std::vector<double>(sets.size(), kNoGain), std::vector<double>(sets.size(), 0.0)};
  std::vector<bool> done = too_large(sets, slots, start);
  const std::vector<bool> small = too_small(sets, slots, start);
  for (std::size_t i = 0; i < sets.size(); ++i) done[i] = done[i] || small[i];
  if (!screen_crowd(sets, slots, start, done, out)) {
    std::vector<std::size_t> now, ahead;
    for (std::size_t i = 0; i < sets.size(); ++i) {
      if (!done[i]) (looks_ahead(sets[i]) ? ahead : now).push_back(i);
    }
    if (!screen_on(screen(false), sets, std::move(now), slots, start, out)) {
      ahead = not_too_far(sets, std::move(ahead), slots, start);
      screen_on(screen(true), sets, std::move(ahead), slots, start, out);
    }
  }
  for (std::size_t i = 0; i < sets.size() && start.empty(); ++i) {
    if (out.gains[i] > kNoGain) {
      alone_[fingerprint(with_mistakes(full_->right(), sets[i]))] = {out.gains[i], out.moved[i]};
    }
  }
  return out;
}

// Of many sets those that are worth a closer look.
std::vector<Mistakes> DiagnoseSearch::promising(const std::vector<Mistakes>& sets,
                                                std::span<const Index> slots,
                                                const Mistakes& start) {
  constexpr double kFarBehind = 9.0;  // of gain: a residual that is 500 times as large
  constexpr std::size_t kFits = 4, kFarRefined = 4;
  constexpr double kPart = 0.2, kWorse = 0.5;
  const Screened found = screened(sets, slots, start);
  const std::vector<double>& gains = found.gains;
  // Where none explains what is far off, the best few are there to go on from.
  const bool far = full_->base_score(slots).loss > kFarOff;
  const std::size_t most = far && !found.enough ? kFarRefined : kRefined;
  std::vector<std::size_t> order(sets.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, [&](auto a, auto b) { return gains[a] > gains[b]; });
  const double before = full_->base_score(slots).cost - cost_of(*full_, slots, start);
  std::vector<Mistakes> few;
  if (found.fit) few.push_back(*found.fit);
  std::size_t fits = found.fit ? kFits : 0, plain = found.fit ? most - 2 : 0;
  std::set<std::string> fitted;
  for (const std::size_t i : order) {
    if (gains[i] <= kNoGain) continue;
    // Of logits alone: what does not help by itself is no start.
    const double least = far && !found.enough ? before + kPart : before - kWorse;
    if (few_ && !few.empty() && gains[i] < least) continue;
    const bool near = gains[i] > gains[order.front()] - kFarBehind;
    if (any_continuous(sets[i])) {
      // A fit may gain more than what a grid shows; of what is far off, the nearest shows a part.
      const MistakeChoice& last = sets[i].back();
      const bool costly = far && last.name == "attention.mask-finite";
      // A mask's number far below all scores changes nothing, nor does one near it.
      const bool idle =
          few_ && last.name == "attention.mask-finite" && std::abs(gains[i] - before) < 1e-6;
      if (fits >= kFits || idle || (costly && gains[i] < before + kPart)) continue;
      // Another number of the same mistake ends where the first does.
      const bool once = costly || !start.empty();
      if (once && !fitted.insert(last.name + last.where + last.text).second) continue;
      ++fits;
    } else if (plain++ >= (near ? most : 2)) {
      continue;
    }
    few.push_back(sets[i]);
  }
  return far ? without_far_behind(std::move(few), start) : few;
}

DiagnoseSearch::Candidates DiagnoseSearch::ranked(const std::vector<Mistakes>& sets,
                                                  std::span<const Index> slots,
                                                  const Mistakes& start) {
  std::vector<Mistakes> few =
      (prefix_ || sequence_) && sets.size() > kRefined ? promising(sets, slots, start) : sets;
  std::vector<Mistakes> plain, fits;
  for (Mistakes& set : few) (any_continuous(set) ? fits : plain).push_back(std::move(set));
  Candidates out;
  const auto better = [](const Candidate& a, const Candidate& b) {
    return a.score.cost < b.score.cost;
  };
  const auto score = [&](const std::vector<Mistakes>& part) {
    const std::vector<Score> scores = full_->scores(part, slots, start);
    for (std::size_t i = 0; i < part.size(); ++i) {
      out.push_back({part[i], scores[i]});
      out.back().score.cost += price_of(part[i]);
    }
    std::ranges::stable_sort(out, better);
  };
  score(plain);
  const double best = out.empty() ? 1e30 : out.front().score.loss;
  std::vector<Mistakes> fitted;
  const MistakeChoice* enough = nullptr;  // what a fit has explained: other numbers need no other
  const std::vector<Mistakes> best_few = best_fits(fits, slots);
  const bool subtle = few_ && full_->base_score(slots).loss < kFarOff;
  for (const Mistakes& set : best_few) {
    if (enough != nullptr && same_mistake(set.back(), *enough) && set.back().where == enough->where)
      continue;
    const bool ahead = looks_ahead(set);
    const Evaluation& on = screen(ahead);
    // What a fit wins lies along the slope; one that is not to blame has hardly any of the residual
    // along it.
    constexpr double kHopeless = 0.7, kFar = 1e3;
    const auto [here, attainable] = on.prospect(set, slots);
    const bool explained = here <= 4.0 * static_cast<double>(slots.size());
    const bool hopeless = !explained && attainable > kHopeless * here;
    if ((few_ && attainable >= here && !explained) || attainable > 100.0 * best + kFar ||
        (hopeless && ((ahead && subtle) || here > kFar)))
      continue;
    // Steps are as Newton's: after one of a hundredth the rest is a hundredth of that.
    constexpr double kRoughly = 1e-2;
    const double explained_loss = few_ ? 3.0 : 1.5;
    const Mistakes found = on.fitted(set, slots, ahead ? 5 : 8, kRoughly);
    const double left = on.score(on.trace(found), slots).loss;
    if (left <= explained_loss * static_cast<double>(slots.size())) enough = &set.back();
    fitted.push_back(with_zero_mask_named(found));
  }
  score(fitted);
  // The few tokens of the screen leave a number open that all of them tell.
  const double before = cost_of(*full_, slots, start);
  if (!out.empty() && any_continuous(out.front().mistakes) && out.front().score.cost < before) {
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

}  // namespace prenorm
