#include "prenorm/cli/progress_line.h"

#include <gtest/gtest.h>

namespace prenorm::cli {
namespace {

TEST(ProgressLine, tells_step_losses_rate_gradient_speed_and_time_to_go) {
  Progress progress;
  progress.iter = 120;
  progress.max_iters = 5000;
  progress.loss = 2.4149;
  progress.last_val_loss = 2.55;
  progress.learning_rate = 6e-4;
  progress.grad_norm = 0.912;
  progress.tokens_per_second = 8100;
  progress.eta_seconds = 760;
  EXPECT_EQ(progress_line(progress),
            "iter 120/5000  loss 2.415  val 2.550  lr 6.0e-4  |g| 0.91  8.1k tok/s  ETA 12:40");
}

TEST(ProgressLine, leaves_out_what_is_not_known) {
  Progress progress;
  progress.max_iters = 10;
  EXPECT_EQ(progress_line(progress), "iter 0/10");
}

}  // namespace
}  // namespace prenorm::cli
