#include "prenorm/study/diagnose_doubt.h"

#include <algorithm>
#include <limits>

namespace prenorm {
namespace {

constexpr double kLittle = 4.0;  // of the rounding

}  // namespace

bool is_a_guess(const Evaluation& evaluation, std::span<const Index> slots,
                const Explanation& found) {
  constexpr double kMost = 3.0;  // of the mean square
  const auto times = [&](Index slot) {
    return evaluation.base().at(slot).computed == nullptr
               ? std::numeric_limits<double>::infinity()
               : evaluation.base().residual(slot) /
                     evaluation.floor()[static_cast<std::size_t>(slot)];
  };
  const Index worst = *std::ranges::max_element(slots, {}, times);
  if (times(worst) > kLittle * kLittle) return false;
  if (!found.explained || !found.alternatives.empty()) return true;
  const double left = evaluation.trace(found.mistakes).residual(worst);
  return kMost * left > evaluation.base().residual(worst);
}

std::optional<std::string> first_departure(const Evaluation& evaluation, const Mistakes& mistakes,
                                           std::span<const DivergedStage> stages) {
  constexpr double kBroughtBack = 0.5;
  const Trace mended = evaluation.trace(mistakes);
  const auto& slots = evaluation.replay().observed();
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const TracedStage& with = mended.at(slots[i]);
    const bool back = with.computed == nullptr ||
                      with.residual < kBroughtBack * evaluation.base().residual(slots[i]);
    const bool far = stages[i].relative > kLittle * stages[i].rounding;
    if (stages[i].departs && (back || far)) return stages[i].name;
  }
  return std::nullopt;
}

}  // namespace prenorm
