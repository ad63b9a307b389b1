#include "prenorm/train/loss_spike.h"

#include <algorithm>
#include <cmath>

namespace prenorm {
namespace {

constexpr std::ptrdiff_t kWindow = 64;
constexpr std::size_t kLeast = 16;
constexpr double kFactor = 1.5, kDeviations = 6.0, kNormal = 1.4826;

// Of an even number the higher of the two in the middle.
double median_of(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

std::optional<LossSpike> RecentLosses::add(Index iter, double loss) {
  std::optional<LossSpike> spike;
  if (losses.size() >= kLeast) {
    std::vector<double> values = losses;
    const double median = median_of(values);
    for (double& value : values) value = std::abs(value - median);
    const double limit = kFactor * median + kDeviations * kNormal * median_of(values);
    const bool above = loss > limit;
    if (above && !high) spike = LossSpike{iter, loss, median, limit};
    high = above;
  }
  if (std::ssize(losses) >= kWindow) losses.erase(losses.begin(), losses.end() - (kWindow - 1));
  losses.push_back(loss);
  return spike;
}

}  // namespace prenorm
