#include "prenorm/train/benchmark.h"

#include <gtest/gtest.h>

#include "prenorm/train/plan.h"
#include "tests/config_of.h"

namespace prenorm {
namespace {

TEST(Benchmark, times_at_least_four_steps_of_the_model_asked_for) {
  GptConfig config = config_of(2, 2, 16, 8, 11);
  const StepTimes times = time_training_steps(Runtime(), config, 3, 0.0);
  EXPECT_GE(times.seconds.size(), 4u);
  EXPECT_EQ(times.tokens, 24);
  EXPECT_EQ(times.flops, training_flops(config, 3, 8));
  EXPECT_GT(times.min(), 0.0);
  EXPECT_GE(times.median(), times.min());
  EXPECT_GT(times.planned_bytes, std::size_t{1} << 16);
}

TEST(Benchmark, the_median_of_an_even_number_of_steps_lies_between_the_middle_two) {
  StepTimes times;
  times.seconds = {4.0, 1.0, 3.0, 2.0};
  EXPECT_EQ(times.median(), 2.5);
  EXPECT_EQ(times.min(), 1.0);
  times.seconds.push_back(9.0);
  EXPECT_EQ(times.median(), 3.0);
}

}  // namespace
}  // namespace prenorm
