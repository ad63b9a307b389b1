#include "prenorm/train/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "prenorm/base/error.h"

namespace prenorm {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

std::string error_of(const std::function<void(TrainOptions&)>& change) {
  TrainOptions options;
  change(options);
  try {
    options.validate();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(TrainOptions, defaults_are_valid) { EXPECT_NO_THROW(TrainOptions().validate()); }

TEST(TrainOptions, a_wrong_value_is_an_error_that_names_the_option) {
  const std::vector<std::pair<std::string, std::function<void(TrainOptions&)>>> wrong{
      {"batch_size", [](auto& o) { o.batch_size = 0; }},
      {"batch_size", [](auto& o) { o.batch_size = -3; }},
      {"gradient_accumulation_steps", [](auto& o) { o.gradient_accumulation_steps = 0; }},
      {"gradient_accumulation_steps",
       [](auto& o) { o.gradient_accumulation_steps = o.batch_size = Index{1} << 40; }},
      {"val_fraction", [](auto& o) { o.val_fraction = -0.1; }},
      {"val_fraction", [](auto& o) { o.val_fraction = 1; }},
      {"val_fraction", [](auto& o) { o.val_fraction = kNan; }},
      {"learning_rate", [](auto& o) { o.learning_rate = 0; }},
      {"learning_rate", [](auto& o) { o.learning_rate = -1e-3; }},
      {"learning_rate", [](auto& o) { o.learning_rate = kNan; }},
      {"learning_rate", [](auto& o) { o.learning_rate = kInf; }},
      {"min_lr", [](auto& o) { o.min_lr = 2e-3; }},
      {"min_lr", [](auto& o) { o.min_lr = -1e-9; }},
      {"min_lr", [](auto& o) { o.min_lr = kNan; }},
      {"warmup_iters", [](auto& o) { o.warmup_iters = -1; }},
      {"lr_decay_iters", [](auto& o) { o.lr_decay_iters = 0; }},
      {"lr_schedule", [](auto& o) { o.lr_schedule = static_cast<LrSchedule>(9); }},
      {"init", [](auto& o) { o.init = static_cast<Initialization>(9); }},
      {"max_iters", [](auto& o) { o.max_iters = 0; }},
      {"max_iters", [](auto& o) { o.max_iters = Index{1} << 33; }},
      {"weight_decay", [](auto& o) { o.weight_decay = -0.1; }},
      {"weight_decay", [](auto& o) { o.weight_decay = kNan; }},
      {"beta1", [](auto& o) { o.beta1 = 1; }},
      {"beta1", [](auto& o) { o.beta1 = kNan; }},
      {"beta2", [](auto& o) { o.beta2 = -0.5; }},
      {"beta2", [](auto& o) { o.beta2 = 1.5; }},
      {"adam_eps", [](auto& o) { o.adam_eps = 0; }},
      {"grad_clip", [](auto& o) { o.grad_clip = -1; }},
      {"grad_clip", [](auto& o) { o.grad_clip = kNan; }},
      {"eval_interval", [](auto& o) { o.eval_interval = -1; }},
      {"eval_iters", [](auto& o) { o.eval_iters = -1; }},
      {"log_interval", [](auto& o) { o.log_interval = 0; }},
      {"save_interval", [](auto& o) { o.save_interval = -1; }},
      {"max_bad_steps", [](auto& o) { o.max_bad_steps = 0; }},
  };
  for (const auto& [name, change] : wrong) {
    EXPECT_THAT(error_of(change), StartsWith(name + ": expected "));
    EXPECT_THAT(error_of(change), HasSubstr(", found "));
  }
}

TEST(TrainOptions, a_low_learning_rate_brings_its_own_min_lr) {
  EXPECT_EQ(error_of([](auto& o) { o.learning_rate = 1e-6; }), "accepted");
  TrainOptions options;
  options.learning_rate = 6e-4;
  EXPECT_DOUBLE_EQ(options.min_learning_rate(), 6e-5);
}

TEST(TrainOptions, schedules_have_names_both_ways) {
  for (const auto& [name, value] : kLrSchedules) {
    EXPECT_EQ(lr_schedule_from_string(name), value);
    EXPECT_EQ(to_string(value), name);
  }
  EXPECT_THROW(lr_schedule_from_string("cosinus"), ConfigError);
}

}  // namespace
}  // namespace prenorm
