#include "prenorm/train/options.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <string>

#include "prenorm/base/checked.h"
#include "prenorm/base/error.h"

namespace prenorm {
namespace {

constexpr Index kMaxSteps = std::numeric_limits<std::uint32_t>::max();  // of a random stream

void check_count(std::string_view name, Index value, Index least) {
  if (value >= least) return;
  throw ConfigError(fmt::format("{}: expected {} or more, found {}", name, least, value));
}

// Written so that NaN fails every comparison.
void check_real(std::string_view name, double value, bool good, std::string_view range) {
  if (good && std::isfinite(value)) return;
  throw ConfigError(fmt::format("{}: expected {}, found {}", name, range, value));
}

}  // namespace

std::string_view to_string(LrSchedule schedule) {
  return name_in(kLrSchedules, schedule, "lr_schedule", "a known schedule");
}

LrSchedule lr_schedule_from_string(std::string_view name) {
  return value_in(kLrSchedules, name, "lr_schedule");
}

void TrainOptions::validate() const {
  check_count("batch_size", batch_size, 1);
  check_count("gradient_accumulation_steps", gradient_accumulation_steps, 1);
  if (!checked_mul(batch_size, gradient_accumulation_steps)) {
    throw ConfigError(
        fmt::format("gradient_accumulation_steps: expected a step of fewer sequences, found {} "
                    "times a batch_size of {}",
                    gradient_accumulation_steps, batch_size));
  }
  check_real("val_fraction", val_fraction, val_fraction >= 0 && val_fraction < 1,
             "0 or more and less than 1");
  check_real("learning_rate", learning_rate, learning_rate > 0, "more than 0");
  if (min_lr) {
    check_real("min_lr", *min_lr, *min_lr >= 0 && *min_lr <= learning_rate,
               fmt::format("0 to the learning_rate of {}", learning_rate));
  }
  if (warmup_iters) check_count("warmup_iters", *warmup_iters, 0);
  if (lr_decay_iters) check_count("lr_decay_iters", *lr_decay_iters, 1);
  to_string(lr_schedule);
  to_string(init);
  to_string(dtype);
  check_count("max_iters", max_iters, 1);
  if (max_iters > kMaxSteps) {
    throw ConfigError(
        fmt::format("max_iters: expected at most {}, found {}", kMaxSteps, max_iters));
  }
  check_real("weight_decay", weight_decay, weight_decay >= 0, "0 or more");
  check_real("beta1", beta1, beta1 >= 0 && beta1 < 1, "0 or more and less than 1");
  check_real("beta2", beta2, beta2 >= 0 && beta2 < 1, "0 or more and less than 1");
  check_real("adam_eps", adam_eps, adam_eps > 0, "more than 0");
  check_real("grad_clip", grad_clip, grad_clip >= 0, "0 (off) or more");
  check_count("eval_interval", eval_interval, 0);
  check_count("eval_iters", eval_iters, 0);
  check_count("log_interval", log_interval, 1);
  check_count("save_interval", save_interval, 0);
  check_real("save_every_minutes", save_every_minutes, save_every_minutes >= 0, "0 (off) or more");
  check_count("keep", keep, 1);
  check_count("patience", patience, 0);
  check_count("max_bad_steps", max_bad_steps, 1);
  check_count("watch_interval", watch_interval, 0);
}

}  // namespace prenorm
