// How long training takes: throughput and the remaining time, for people only.
#pragma once
#include <chrono>

#include "prenorm/base/index.h"

namespace prenorm {

class TrainingClock {
 public:
  // Starts a session of a run that has already taken this long.
  void start(double earlier_seconds);
  // Seconds of the run, earlier sessions included.
  double elapsed() const;

  // A lap runs from begin_lap() to the end_… call that says what it was.
  void begin_lap() { lap_ = std::chrono::steady_clock::now(); }
  void end_step();
  void end_evaluation();

  // Smoothed over about the last 20 steps; 0 until measured.
  double seconds_per_step() const { return weight_ > 0 ? seconds_ / weight_ : 0.0; }
  double remaining(Index steps, Index evaluations) const;

 private:
  double lap_seconds() const;

  std::chrono::steady_clock::time_point start_{}, lap_{};
  double earlier_ = 0.0;
  double seconds_ = 0.0, weight_ = 0.0;  // of an exponential mean
  double evaluation_seconds_ = 0.0;      // of the newest evaluation
  Index steps_ = 0;
};

}  // namespace prenorm
