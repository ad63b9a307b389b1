// Seconds on the clock that never goes back, for what is timed.
//
//   const auto start = Clock::now();
//   … work …
//   const double seconds = seconds_since(start);
#pragma once
#include <chrono>

namespace prenorm {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace prenorm
