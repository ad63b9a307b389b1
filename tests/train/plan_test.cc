#include "prenorm/train/plan.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <vector>

#include "tests/config_of.h"
#include "tests/tolerances.h"
#include "tests/train/small_run.h"

namespace prenorm {
namespace {

using testing_support::small_config;
using testing_support::small_options;
using testing_support::small_text;

// 3 (2 (12 L C² + V C) N + 2 L B T² C), worked out by hand.
TEST(Plan, flops_are_those_of_matrices_vocabulary_and_causal_attention) {
  EXPECT_EQ(training_flops(config_of(4, 4, 128, 64, 65), 12, 64), 3813212160.0);
  EXPECT_NEAR(training_flops(config_of(12, 12, 768, 1024, 50257), 4, 1024), 3267851452416.0, 1.0);
}

TEST(Plan, memory_is_four_copies_of_the_weights_and_the_workspace) {
  const Gpt model(config_of(4, 4, 128, 64, 65));
  const MemoryPlan plan = plan_memory(model, 12, 1000, 4096);
  const std::size_t floats = model.parameters().values().size_bytes();
  EXPECT_GE(floats, 4 * static_cast<std::size_t>(model.parameters().total_size()));
  EXPECT_EQ(plan.parameters, floats);
  EXPECT_EQ(plan.moments, 2 * floats);
  EXPECT_EQ(plan.workspace, model.workspace_bytes(12, 64));
  EXPECT_EQ(plan.data, 4000u);
  EXPECT_EQ(plan.total(), 4 * floats + plan.workspace + plan.scratch + plan.data + plan.process);
}

TEST(Plan, leaves_weights_and_gradients_as_they_were) {
  Runtime run({.threads = 1});
  Gpt model(small_config());
  model.initialize(1);
  const std::vector<float> before(model.parameters().values().begin(),
                                  model.parameters().values().end());
  const std::vector<TokenId> text = small_text(500);
  const TrainingPlan plan = plan_training(run, model, {text, {}}, small_options());
  EXPECT_EQ(plan.parameters, model.parameters().total_size());
  EXPECT_EQ(plan.tokens_per_step, 64);
  EXPECT_GT(plan.seconds_per_step, 0);
  EXPECT_GE(plan.seconds, 20 * plan.seconds_per_step);
  EXPECT_TRUE(std::ranges::equal(before, model.parameters().values()));
  for (const float g : model.parameters().grads()) ASSERT_EQ(g, 0.0f);
}

// Plans and trains two steps in a process of its own; {planned, measured} bytes.
std::pair<double, double> peak_memory(const GptConfig& config, Index batch_size, Products dtype) {
  int ends[2];
  if (pipe(ends) != 0) return {0, 0};
  const pid_t child = fork();
  if (child == 0) {
    Runtime run({.threads = 2});
    Gpt model(config);
    model.initialize(1);
    TrainOptions options;
    options.batch_size = batch_size;
    options.dtype = dtype;
    options.max_iters = 2;
    const std::vector<TokenId> text = small_text(20000);
    const TrainData data{text, {}};
    const double planned =
        static_cast<double>(plan_training(run, model, data, options).memory.total());
    Trainer(run, model, data, options).train();
    if (write(ends[1], &planned, sizeof planned) != sizeof planned) _exit(1);
    _exit(0);
  }
  close(ends[1]);
  double planned = 0;
  if (read(ends[0], &planned, sizeof planned) != sizeof planned) planned = 0;
  close(ends[0]);
  rusage usage{};
  int status = 0;
  wait4(child, &status, 0, &usage);
  return {planned, 1024.0 * static_cast<double>(usage.ru_maxrss)};
}

TEST(Plan, the_planned_memory_is_within_a_tenth_of_the_measured_peak) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's own memory is in the measured peak";
#endif
  for (const auto& [config, batch] : {std::pair{config_of(4, 4, 128, 64, 65), Index{12}},
                                      {config_of(4, 8, 256, 256, 5000), Index{8}}}) {
    for (const Products dtype : {Products::kFloat32, Products::kBfloat16Tile}) {
      const auto [planned, measured] = peak_memory(config, batch, dtype);
      EXPECT_NEAR(planned / measured, 1.0, tolerance::kPlannedMemory)
          << planned / 1e6 << " MB planned, " << measured / 1e6 << " MB measured";
    }
  }
}

}  // namespace
}  // namespace prenorm
