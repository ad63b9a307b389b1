#include "prenorm/base/stopwatch.h"

#include <gtest/gtest.h>

namespace prenorm {
namespace {

TEST(Stopwatch, counts_seconds_forward) {
  const auto start = Clock::now();
  const double first = seconds_since(start), second = seconds_since(start);
  EXPECT_GE(first, 0.0);
  EXPECT_GE(second, first);
  EXPECT_NEAR(seconds_since(start - std::chrono::milliseconds(1500)), 1.5, 0.5);
}

}  // namespace
}  // namespace prenorm
