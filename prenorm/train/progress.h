// What a training run tells about itself while it runs. Times come from a monotonic clock and are
// for people: no number of the arithmetic depends on them.
#pragma once
#include <optional>

#include "prenorm/base/index.h"

namespace prenorm {

struct Progress {
  Index iter = 0;  // steps completed; 0 before the first
  Index max_iters = 0;
  std::optional<double> loss;           // mean of the steps since the last line; none at iter 0
  std::optional<double> val_loss;       // set where an evaluation was made at this very iter
  std::optional<double> last_val_loss;  // of the newest evaluation so far
  std::optional<double> best_val_loss;  // lowest so far
  Index best_iter = 0;                  // where it was reached
  double learning_rate = 0.0;           // of the last completed step
  std::optional<double> grad_norm;      // before clipping, of the last completed step
  double tokens_per_second = 0.0;       // training only, smoothed; 0 until measured
  double eta_seconds = 0.0;             // remaining steps and evaluations; 0 until measured
  double elapsed_seconds = 0.0;         // over all sessions of the run
  Index skipped_steps = 0;              // not applied because a number was not finite
};

}  // namespace prenorm
