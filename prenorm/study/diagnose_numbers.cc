#include "prenorm/study/diagnose_numbers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "prenorm/study/diagnose_places.h"

namespace prenorm {
namespace {

constexpr double kNoMask = -std::numeric_limits<double>::infinity();

// Steps over which a chord is a fair guess. The model's own ε stands among them.
constexpr std::array kEpsilons = {1e-12, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0};
constexpr std::array kFewEpsilons = {1e-12, 1e-6, 1e-5, 1e-4, 1e-2, 1.0, 10.0};
// From the mask that blocks, which has no number: infinitely far down.
constexpr std::array kMasks = {-60.0, -30.0, -16.0, -10.0, -7.0, -4.5, -3.0, -1.5,
                               -0.5,  0.5,   1.5,   3.0,   6.0,  12.0, 30.0};
constexpr std::array kFewMasks = {-12.0, -8.0, -5.0, -3.0, -1.0, 2.0, 8.0};

bool is_mask(const MistakeChoice& choice) { return choice.name == "attention.mask-finite"; }

// A replay moves about as far as these do: the weight of what should be blocked while that is
// small, and else the number itself.
double between(bool mask, double low, double high, double part) {
  if (!mask || high > 0.0) return low + part * (high - low);
  const double a = std::exp(low), b = std::exp(high);
  return std::log(a + part * (b - a));
}

std::vector<double> scale_of(bool mask, bool all, double own) {
  std::vector<double> out;
  if (mask) {
    out.push_back(kNoMask);
    const auto add = [&](const auto& numbers) {
      out.insert(out.end(), numbers.begin(), numbers.end());
    };
    all ? add(kMasks) : add(kFewMasks);
    return out;
  }
  const auto add = [&](const auto& numbers) {
    for (const double number : numbers) {
      // What is near the model's own shows as its neighbour.
      if (number < 0.5 * own || number > 2.0 * own) out.push_back(number);
    }
  };
  all ? add(kEpsilons) : add(kFewEpsilons);
  out.push_back(own);
  std::ranges::sort(out);
  return out;
}

}  // namespace

NumberSearch::NumberSearch(const Runtime& run, const Evaluation& evaluation,
                           std::span<const Index> slots, const Mistakes& start,
                           Arithmetic arithmetic)
    : run_(run),
      evaluation_(evaluation),
      slots_(slots),
      start_(start),
      arithmetic_(arithmetic),
      started_(trace(start)),
      loss_(loss_of(started_)) {}

Mistakes NumberSearch::with_number(Mistakes set, double number) const {
  for (std::size_t i = start_.size(); i < set.size(); ++i) set[i].number = number;
  return set;
}

Trace NumberSearch::trace(const Mistakes& set) const {
  return evaluation_.replay().run(with_mistakes(evaluation_.right(), set), &evaluation_.base(),
                                  false, arithmetic_, Keep::kCompared);
}

double NumberSearch::loss_of(const Trace& trace) const {
  return evaluation_.score(trace, slots_).loss;
}

// ‖e + s d‖² is least at s = −⟨e, d⟩ / ⟨d, d⟩, each stage weighed by its rounding.
NumberSearch::Chord NumberSearch::chord(const Trace& from, const Trace& to) const {
  double along = 0.0, square = 0.0;
  for (const Index slot : slots_) {
    const TracedStage &a = from.at(slot), &b = to.at(slot);
    if (a.computed == nullptr || b.computed == nullptr || a.computed == b.computed) continue;
    const Values& theirs = *evaluation_.replay().problem().theirs.at(slot);
    const double floor = evaluation_.floor()[static_cast<std::size_t>(slot)];
    const double weight = 1.0 / (floor * static_cast<double>(theirs.size()));
    for (Index i = 0; i < theirs.size(); ++i) {
      const double d = (*b.computed)[i] - (*a.computed)[i];
      along += weight * (theirs[i] - (*a.computed)[i]) * d;
      square += weight * d * d;
    }
  }
  const double loss = loss_of(from);
  if (!(square > 0.0) || !std::isfinite(along)) return {0.0, loss};
  const double s = std::clamp(along / square, 0.0, 1.0);
  return {s, loss - 2.0 * s * along + s * s * square};
}

std::vector<NumberSearch::Found> NumberSearch::coarse(std::span<const Mistakes> sets,
                                                      bool all_numbers) const {
  std::vector<Found> out(sets.size());
  on_threads(run_, static_cast<Index>(sets.size()), [&](Index i) {
    const Mistakes& set = sets[static_cast<std::size_t>(i)];
    Found& found = out[static_cast<std::size_t>(i)] = {.set = set, .loss = loss_};
    const bool mask = is_mask(set.back());
    const double own = evaluation_.replay().model().settings.eps;
    const std::vector<double> scale = scale_of(mask, all_numbers, own);
    std::optional<Trace> before;
    for (std::size_t k = 0; k < scale.size(); ++k) {
      const bool none = mask ? scale[k] == kNoMask : scale[k] == own;
      Trace here = none ? started_ : trace(with_number(set, scale[k]));
      if (before) {
        const Chord c = chord(*before, here);
        if (c.loss < found.loss) {
          found.loss = c.loss;
          found.low = scale[k - 1];
          found.high = scale[k];
        }
      }
      before = std::move(here);
    }
  });
  return out;
}

// As the rule of false position, but with the whole residual in place of a number: the half of the
// interval whose chord comes nearer goes on.
Mistakes NumberSearch::fine(const Found& found) const {
  constexpr int kMost = 12;
  constexpr double kExactly = 1e-3;
  const bool mask = is_mask(found.set.back());
  const double own = evaluation_.replay().model().settings.eps;
  const auto trace_at = [&](double number) {
    const bool none = mask ? number == kNoMask : number == own;
    return none ? started_ : trace(with_number(found.set, number));
  };
  double low = found.low, high = found.high;
  Trace at_low = trace_at(low), at_high = trace_at(high);
  double best = high, least = loss_of(at_high);
  Chord c = chord(at_low, at_high);
  for (int step = 0; step < kMost; ++step) {
    // Off the ends, so that the interval always shrinks.
    const double part = std::clamp(c.at, 0.02, 0.98);
    const double middle = between(mask, low, high, part);
    Trace here = trace_at(middle);
    const double loss = loss_of(here);
    const bool still = std::abs(middle - best) <= kExactly * std::abs(middle);
    if (loss < least) {
      least = loss;
      best = middle;
    }
    if (still || high - low <= kExactly * std::abs(high)) break;
    const Chord below = chord(at_low, here), above = chord(here, at_high);
    if (below.loss < above.loss) {
      c = below;
      high = middle;
      at_high = std::move(here);
    } else {
      c = above;
      low = middle;
      at_low = std::move(here);
    }
  }
  return with_number(found.set, best);
}

double epsilon_as_written(const Evaluation& evaluation, const Mistakes& set,
                          const MistakeChoice& choice, std::span<const Index> slots) {
  constexpr double kAsGood = 1.1;  // a fit takes some of the rounding with it
  constexpr double kTiny = 1e-12, kSmall = 1e-7;
  const double power = std::pow(10.0, std::round(std::log10(*choice.number)));
  const double loss = evaluation.score(evaluation.trace(set), slots).loss;
  // Of what is too small to tell, 1e-12 is what models have.
  for (const double number : {power < kSmall ? kTiny : power, power, kTiny}) {
    Mistakes other = set;
    for (MistakeChoice& m : other) {
      if (same_mistake(m, choice)) m.number = number;
    }
    if (evaluation.score(evaluation.trace(other), slots).loss <= kAsGood * loss) return number;
  }
  return *choice.number;
}

}  // namespace prenorm
