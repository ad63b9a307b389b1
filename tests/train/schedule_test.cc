#include "prenorm/train/schedule.h"

#include <gtest/gtest.h>

#include <vector>

namespace prenorm {
namespace {

TrainOptions options(double peak, double floor, Index warmup, Index decay) {
  TrainOptions out;
  out.learning_rate = peak;
  out.min_lr = floor;
  out.warmup_iters = warmup;
  out.lr_decay_iters = decay;
  return out;
}

void expect_rates(const TrainOptions& o, const std::vector<std::pair<Index, double>>& expected) {
  for (const auto& [iter, rate] : expected) {
    EXPECT_NEAR(learning_rate_at(o, iter), rate, 1e-14 * rate + 1e-18) << "iteration " << iter;
  }
}

// Values of nanoGPT's get_lr in Python.
TEST(Schedule, cosine_is_nanogpts_rule_at_every_corner) {
  expect_rates(options(6e-4, 6e-5, 2000, 600000), {{0, 2.998500749625187e-07},
                                                   {1, 5.997001499250374e-07},
                                                   {10, 3.2983508245877057e-06},
                                                   {100, 3.028485757121439e-05},
                                                   {1000, 0.00030014992503748123},
                                                   {1999, 0.0005997001499250374},
                                                   {2000, 0.0006},
                                                   {301000, 0.00033},
                                                   {600000, 6e-05},
                                                   {600001, 6e-05}});
  expect_rates(options(1e-3, 1e-4, 10, 100), {{0, 9.090909090909092e-05},
                                              {5, 0.0005454545454545455},
                                              {9, 0.0009090909090909091},
                                              {10, 0.001},
                                              {40, 0.000775},
                                              {55, 0.00055},
                                              {99, 0.00010027412784140692},
                                              {100, 0.0001},
                                              {101, 0.0001}});
}

TEST(Schedule, warmup_as_long_as_the_decay_divides_nothing_by_zero) {
  expect_rates(options(1e-3, 1e-4, 100, 100),
               {{99, 0.0009900990099009901}, {100, 0.001}, {101, 0.0001}});
}

TEST(Schedule, linear_is_a_straight_line_down) {
  TrainOptions o = options(1e-3, 1e-4, 0, 100);
  o.lr_schedule = LrSchedule::kLinear;
  expect_rates(o, {{0, 1e-3}, {50, 5.5e-4}, {75, 3.25e-4}, {100, 1e-4}, {500, 1e-4}});
}

TEST(Schedule, constant_only_warms_up) {
  TrainOptions o = options(1e-3, 1e-4, 3, 100);
  o.lr_schedule = LrSchedule::kConstant;
  expect_rates(o, {{0, 2.5e-4}, {1, 5e-4}, {2, 7.5e-4}, {3, 1e-3}, {100, 1e-3}, {5000, 1e-3}});
}

TEST(Schedule, decay_ends_at_max_iters_unless_said_otherwise) {
  TrainOptions o;
  o.learning_rate = 1e-3;
  o.max_iters = 400;
  EXPECT_EQ(o.warmup_steps(), 20);
  EXPECT_GT(learning_rate_at(o, 399), 1e-4);
  EXPECT_NEAR(learning_rate_at(o, 400), 1e-4, 1e-18);
}

}  // namespace
}  // namespace prenorm
