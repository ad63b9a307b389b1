#include "prenorm/train/schedule.h"

#include "prenorm/base/portable_math.h"

namespace prenorm {

double learning_rate_at(const TrainOptions& options, Index iter) {
  const double peak = options.learning_rate, floor = options.min_learning_rate();
  const Index warmup = options.warmup_steps(), decay = options.decay_steps();
  if (iter < warmup) {
    return peak * static_cast<double>(iter + 1) / static_cast<double>(warmup + 1);
  }
  if (options.lr_schedule == LrSchedule::kConstant) return peak;
  if (iter > decay) return floor;
  if (decay == warmup) return peak;
  const double ratio = static_cast<double>(iter - warmup) / static_cast<double>(decay - warmup);
  const double coefficient = options.lr_schedule == LrSchedule::kLinear
                                 ? 1.0 - ratio
                                 : 0.5 * (1.0 + portable_cos_pi(ratio));
  return floor + coefficient * (peak - floor);
}

}  // namespace prenorm
