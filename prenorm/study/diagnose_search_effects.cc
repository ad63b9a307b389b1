// Pairs in the order in which the effects of their mistakes, each by itself, promise:
// DiagnoseSearch's use of diagnose_effects.h.
#include <algorithm>
#include <set>
#include <utility>

#include "prenorm/study/diagnose_crowd.h"
#include "prenorm/study/diagnose_joint.h"
#include "prenorm/study/diagnose_search.h"

namespace prenorm {
namespace {

constexpr double kUnknown = 1e30;

Values difference(const Values& a, const Values& b) {
  Values out(a.shape());
  for (Index i = 0; i < out.size(); ++i) out[i] = a[i] - b[i];
  return out;
}

}  // namespace

// Of logits alone, a quarter of the tokens: as many as tell, for what they take.
Index DiagnoseSearch::compared_tokens() const {
  constexpr Index kMost = 32;
  return std::clamp(full_replay_->problem().time / 4, kPrefix, kMost);
}

void DiagnoseSearch::learn(Effects& effects, const Evaluation& evaluation, const Mistakes& mistake,
                           const Values& logits) {
  const Index slot = evaluation.replay().stages().logits();
  const Values right = row_range(*evaluation.base().at(slot).computed, 0, logits.rows());
  if (effects.sums == nullptr) {
    const Values& theirs = *evaluation.replay().problem().theirs.at(slot);
    effects.sums =
        std::make_unique<DiagnoseEffects>(difference(row_range(theirs, 0, logits.rows()), right));
  }
  effects.number.emplace(fingerprint(with_mistakes(evaluation.right(), mistake)),
                         effects.sums->add(difference(logits, right)));
}

// What looks ahead has been replayed by itself before; the others' first tokens are, here.
void DiagnoseSearch::learn_later(const std::vector<Mistakes>& sets,
                                 std::span<const std::size_t> which) {
  const Evaluation& whole = screen(true);
  std::set<std::vector<double>> seen;
  std::vector<Mistakes> causal;
  for (const std::size_t i : which) {
    for (const MistakeChoice& m : sets[i]) {
      std::vector<double> print = fingerprint(with_mistakes(full_->right(), {m}));
      if (later_.number.contains(print) || seen.contains(print)) continue;
      const Values* known = whole.first_rows(print);
      if (known != nullptr) learn(later_, whole, {m}, *known);
      if (known == nullptr && !looks_ahead({m})) causal.push_back({m});
      seen.insert(std::move(print));
    }
  }
  if (causal.empty()) return;
  const Replay replay(run_, full_replay_->model(),
                      whole.replay().problem().cropped(1, compared_tokens()));
  std::vector<reference::GptOptions> options;
  for (const Mistakes& set : causal) options.push_back(with_mistakes(full_->right(), set));
  const std::vector<Values> logits = logits_of_each(run_, replay, options, Arithmetic::kQuick);
  for (std::size_t k = 0; k < causal.size(); ++k) learn(later_, whole, causal[k], logits[k]);
}

double DiagnoseSearch::left_by(const Effects& effects, const Mistakes& pair) const {
  const auto number = [&](const MistakeChoice& m) {
    return effects.number.find(fingerprint(with_mistakes(full_->right(), {m})));
  };
  const auto a = number(pair[0]), b = number(pair[1]), none = effects.number.end();
  return a == none || b == none ? kUnknown : effects.sums->left(a->second, b->second);
}

// Of logits alone, and pairs of mistakes that are everywhere, of which one looks ahead: those that
// are tried. Others stay in their order.
std::vector<std::size_t> DiagnoseSearch::by_effects(const std::vector<Mistakes>& sets,
                                                    std::vector<std::size_t> which) {
  constexpr Index kTokens = 2560, kLeast = 8, kMost = 40;
  const Index quick = std::clamp(kTokens / full_replay_->problem().time, kLeast, kMost);
  const auto most = patient_ ? which.size() : static_cast<std::size_t>(quick);
  const bool pairs = std::ranges::all_of(which, [&](std::size_t i) {
    return sets[i].size() == 2 &&
           std::ranges::all_of(sets[i], [](const MistakeChoice& m) { return m.where.empty(); });
  });
  if (few_ == nullptr || !pairs || which.empty()) return which;
  learn_later(sets, which);
  std::vector<double> left(sets.size(), kUnknown);
  for (const std::size_t i : which) left[i] = left_by(later_, sets[i]);
  std::ranges::stable_sort(which, [&](auto a, auto b) { return left[a] < left[b]; });
  which.resize(std::min(which.size(), most));
  return which;
}

// Pairs of mistakes that are everywhere: those that look ahead, and of the others, which a few
// tokens tell, the most promising.
DiagnoseSearch::Pairs DiagnoseSearch::promising_pairs(const DiagnoseScope& scope) const {
  constexpr std::size_t kCausal = 60;
  std::vector<Mistakes> pairs = pairs_of(scope, {});
  const std::vector<bool> large = too_large(pairs, scope.slots, {});
  const std::vector<bool> small = too_small(pairs, scope.slots, {});
  std::vector<std::pair<double, std::size_t>> causal;
  Pairs out;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    if (large[i] || small[i]) continue;
    if (looks_ahead(pairs[i])) {
      out.ahead.push_back(std::move(pairs[i]));
    } else {
      causal.emplace_back(left_by(early_, pairs[i]), i);
    }
  }
  std::ranges::sort(causal);
  causal.resize(std::min(causal.size(), kCausal));
  for (const auto& [left, i] : causal) out.causal.push_back(std::move(pairs[i]));
  return out;
}

// Of logits alone, the two that are everywhere and explain the scope.
DiagnoseSearch::Candidates DiagnoseSearch::pairs_by_effects(const DiagnoseScope& scope) {
  constexpr double kMuch = 2.0;  // of gain beyond what one of the two has alone
  const Pairs pairs = promising_pairs(scope);
  const auto explaining = [&](const std::vector<Mistakes>& sets) {
    Candidates found = ranked(sets, scope.slots);
    if (found.empty() || !explains(found.front(), scope.slots)) found.clear();
    return found;
  };
  const Screened few = screened(pairs.causal, scope.slots, {});
  bool likely = few.enough;
  for (std::size_t i = 0; i < pairs.causal.size(); ++i) {
    likely = likely || few.gains[i] > most_alone(pairs.causal[i]) + kMuch;
  }
  Candidates found;
  if (likely) found = explaining(pairs.causal);
  return found.empty() ? explaining(pairs.ahead) : found;
}

}  // namespace prenorm
