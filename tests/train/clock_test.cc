#include "prenorm/train/clock.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace prenorm {
namespace {

void pause(int milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

TEST(TrainingClock, elapsed_goes_on_from_earlier_sessions) {
  TrainingClock clock;
  EXPECT_EQ(clock.elapsed(), 0.0);
  clock.start(100.0);
  pause(5);
  EXPECT_GE(clock.elapsed(), 100.005);
}

TEST(TrainingClock, the_first_step_counts_only_until_there_is_another) {
  TrainingClock clock;
  clock.start(0);
  EXPECT_EQ(clock.seconds_per_step(), 0.0);
  pause(400);
  clock.end_step();
  EXPECT_GE(clock.seconds_per_step(), 0.4);
  clock.begin_lap();
  pause(2);
  clock.end_step();
  EXPECT_GE(clock.seconds_per_step(), 0.002);
  EXPECT_LT(clock.seconds_per_step(), 0.2);
}

TEST(TrainingClock, evaluations_are_apart_from_steps) {
  TrainingClock clock;
  clock.start(0);
  pause(2);
  clock.end_step();
  clock.begin_lap();
  pause(50);
  clock.end_evaluation();
  EXPECT_GE(clock.remaining(0, 2), 0.1);
  EXPECT_NEAR(clock.remaining(10, 0), 10 * clock.seconds_per_step(), 1e-12);
}

}  // namespace
}  // namespace prenorm
