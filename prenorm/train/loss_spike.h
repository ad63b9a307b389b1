// A step whose loss is far above those of the steps before it.
//
//   RecentLosses losses;
//   if (const auto spike = losses.add(iter, loss)) tell(*spike);
//
// Far above: more than 1.5 times the median of the last 64 losses plus 6 robust deviations
// (1.4826 times the median distance from the median: of a normal distribution the standard
// deviation), once 16 are known. Losses that stay up are told once, at the first; the next one is
// told after a loss that is not far above. It only looks: no bit of the training depends on it.
#pragma once
#include <optional>
#include <vector>

#include "prenorm/base/index.h"

namespace prenorm {

struct LossSpike {
  Index iter = 0;  // steps completed, this one included
  double loss = 0.0;
  double median = 0.0;  // of the steps before
  double limit = 0.0;   // what it was beyond
};

// Saved with a run, so that a resumed one tells the same.
struct RecentLosses {
  std::vector<double> losses;  // oldest first
  bool high = false;           // the last one was far above

  // `loss` is finite.
  std::optional<LossSpike> add(Index iter, double loss);
};

}  // namespace prenorm
