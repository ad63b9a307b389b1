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

// The part of a mistake's name that those have in common which may stand for each other.
std::string kind_of(const MistakeChoice& m) {
  if (m.name == "attention.mask-shifted" || m.name == "attention.mask-inverted") return m.name;
  const std::string kind = m.name.substr(0, m.name.find('-'));
  return kind.ends_with(".no") ? m.name : kind;
}

// Whether the sets are the same but for one mistake of the same kind.
bool may_stand_for(const Mistakes& a, const Mistakes& b) {
  std::size_t others = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (same_mistake(a[i], b[i]) && a[i].where == b[i].where) continue;
    if (kind_of(a[i]) != kind_of(b[i])) return false;
    ++others;
  }
  return a.size() == b.size() && others <= 1;
}

// What it is but for a number that is fitted.
std::string without_number(const Mistakes& set) {
  std::string out;
  for (const MistakeChoice& m : set) {
    out += m.name + " " + m.where + " " + m.text + " ";
    if (m.number && !has_continuous_value(m)) out += std::to_string(*m.number);
  }
  return out;
}

bool may_stand_for(const std::vector<Mistakes>& any, const Mistakes& set) {
  return std::ranges::any_of(any, [&](const Mistakes& m) { return may_stand_for(m, set); });
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

// What the best of a set explains by itself.
double DiagnoseSearch::most_alone(const Mistakes& set) const {
  double most = 0.0;
  for (const MistakeChoice& m : set) {
    const Alone* known = alone(m);
    if (known != nullptr) most = std::max(most, known->gain);
  }
  return most;
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

bool DiagnoseSearch::screen_on(const Evaluation& evaluation, const std::vector<Mistakes>& sets,
                               std::vector<std::size_t> which, std::span<const Index> slots,
                               const Mistakes& start, Screened& out) {
  if (which.empty()) return out.enough;
  const bool singles = start.empty() && (!few_ || sets[which.front()].size() == 1);
  if (!singles) return screen_in_turn(evaluation, sets, std::move(which), slots, start, out);
  std::vector<Mistakes> part;
  for (const std::size_t i : which) part.push_back(sets[i]);
  const Score base = evaluation.base_score(slots);
  const Arithmetic arithmetic = screening_arithmetic(base, slots.size());
  const std::vector<Score> scores = evaluation.scores(part, slots, start, arithmetic);
  for (std::size_t k = 0; k < which.size(); ++k) {
    out.gains[which[k]] = base.cost - scores[k].cost;
    out.moved[which[k]] = scores[k].moved;
    if (is_enough(scores[k], base, slots.size(), arithmetic)) out.all.push_back(part[k]);
  }
  out.enough = out.enough || !out.all.empty();
  return out.enough;
}

// A few at a time, the likeliest first. What explains all ends it; what may stand for that is tried
// all the same.
bool DiagnoseSearch::screen_in_turn(const Evaluation& evaluation, const std::vector<Mistakes>& sets,
                                    std::vector<std::size_t> which, std::span<const Index> slots,
                                    const Mistakes& start, Screened& out) {
  constexpr double kSome = 0.7, kMuch = 2.0;  // of gain
  const std::size_t at_once = few_ ? 4 : 10;
  const Score base = evaluation.base_score(slots);
  const double left = cost_of(evaluation, slots, start);
  const Arithmetic arithmetic = screening_arithmetic(base, slots.size());
  which = by_effects(sets, likely_first(sets, std::move(which), start, left));
  double fit_gain = kSome, sure_gain = kMuch;
  std::optional<Mistakes> to_fit;  // the best that has a number on the grid
  for (std::size_t first = 0; first < which.size(); first += at_once) {
    std::vector<std::size_t> now;
    std::vector<Mistakes> part;
    for (std::size_t k = first; k < std::min(first + at_once, which.size()); ++k) {
      if (!out.all.empty() && !may_stand_for(out.all, sets[which[k]])) continue;
      now.push_back(which[k]);
      part.push_back(sets[which[k]]);
    }
    const std::vector<Score> scores = evaluation.scores(part, slots, start, arithmetic);
    for (std::size_t k = 0; k < now.size(); ++k) {
      const Score& score = scores[k];
      out.gains[now[k]] = base.cost - score.cost;
      out.moved[now[k]] = score.moved;
      const double won = left - score.cost - (start.empty() ? most_alone(part[k]) : 0.0);
      bool all = is_enough(score, base, slots.size(), arithmetic);
      // The rounding may be larger with the mistakes than without.
      if (!all && few_ && won > sure_gain && !full_->far_off(score, slots, kCleanTimes)) {
        sure_gain = won + kMuch;
        all = full_->explains(part[k], slots, kCleanTimes);
      }
      if (all) out.all.push_back(part[k]);
      if (all || !few_ || !any_continuous(part[k]) || won < fit_gain) continue;
      fit_gain = won;
      to_fit = part[k];
    }
    const bool last = first + at_once >= which.size(), odd = first / at_once % 2 == 1;
    if (!to_fit || !out.all.empty() || !(last || odd)) continue;
    out.fit = fit_that_explains(evaluation, *to_fit, slots, left);
    if (out.fit) out.all.push_back(*out.fit);
    to_fit.reset();
  }
  out.enough = out.enough || !out.all.empty();
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
                                                std::span<const Index> slots, const Mistakes& start,
                                                bool& enough) {
  constexpr double kFarBehind = 9.0;  // of gain: a residual that is 500 times as large
  constexpr std::size_t kFits = 4, kFarRefined = 4;
  constexpr double kPart = 0.2, kCostlyPart = 0.5, kWorse = 0.5, kApart = 4.0;
  const bool pairs = few_ && start.empty() && !sets.empty() && sets.front().size() > 1;
  const Screened found = screened(sets, slots, start);
  const std::vector<double>& gains = found.gains;
  enough = found.enough && !found.fit;  // with no number to be found
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
      const MistakeChoice& last =
          start.empty() ? *std::ranges::find_if(sets[i], has_continuous_value) : sets[i].back();
      const bool mask = last.name == "attention.mask-finite", costly = far && mask;
      // A mask's number far below all scores changes nothing, nor does one near it; and where
      // another mistake explains all, only one that does so on the grid is as good.
      const bool idle = few_ && mask && std::abs(gains[i] - before) < 1e-6;
      const bool apart = enough && mask && gains[i] < gains[order.front()] - kApart;
      const bool other = pairs && found.enough && !may_stand_for(found.all, sets[i]);
      if (fits >= kFits || idle || apart || other || (costly && gains[i] < before + kCostlyPart))
        continue;
      // Another number of the same mistake ends where the first does.
      const bool once = costly || pairs || !start.empty();
      if (once && !fitted.insert(without_number(sets[i])).second) continue;
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
  bool enough = true;
  std::vector<Mistakes> few = (prefix_ || sequence_) && sets.size() > kRefined
                                  ? promising(sets, slots, start, enough)
                                  : sets;
  std::vector<Mistakes> plain, fits;
  for (Mistakes& set : few) (any_continuous(set) ? fits : plain).push_back(std::move(set));
  Candidates out;
  const auto better = [](const Candidate& a, const Candidate& b) {
    return a.score.cost < b.score.cost;
  };
  // None of those that are far off comes to where float's own rounding shows.
  const bool rough = few_ && !enough && full_->base_score(slots).loss > kFarOff;
  const auto score = [&](const std::vector<Mistakes>& part, Arithmetic arithmetic) {
    const std::vector<Score> scores = full_->scores(part, slots, start, arithmetic);
    for (std::size_t i = 0; i < part.size(); ++i) {
      out.push_back({part[i], scores[i]});
      out.back().score.cost += price_of(part[i]);
    }
    std::ranges::stable_sort(out, better);
  };
  score(plain, rough ? Arithmetic::kQuick : Arithmetic::kDouble);
  const double best = out.empty() ? 1e30 : out.front().score.loss;
  score(fitted_of(fits, slots, best), Arithmetic::kDouble);
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

}  // namespace prenorm
