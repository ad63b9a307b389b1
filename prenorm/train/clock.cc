#include "prenorm/train/clock.h"

namespace prenorm {

void TrainingClock::start(double earlier_seconds) {
  *this = TrainingClock();
  earlier_ = earlier_seconds;
  start_ = lap_ = std::chrono::steady_clock::now();
}

double TrainingClock::elapsed() const {
  if (start_ == std::chrono::steady_clock::time_point{}) return earlier_;
  return earlier_ +
         std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

double TrainingClock::lap_seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - lap_).count();
}

void TrainingClock::end_step() {
  // The first step touches memory for the first time: it counts only until there is another.
  if (steps_++ == 1) seconds_ = weight_ = 0.0;
  constexpr double kKeep = 0.95;
  seconds_ = kKeep * seconds_ + (1 - kKeep) * lap_seconds();
  weight_ = kKeep * weight_ + (1 - kKeep);
}

void TrainingClock::end_evaluation() { evaluation_seconds_ = lap_seconds(); }

double TrainingClock::remaining(Index steps, Index evaluations) const {
  return static_cast<double>(steps) * seconds_per_step() +
         static_cast<double>(evaluations) * evaluation_seconds_;
}

}  // namespace prenorm
