#include "prenorm/generate/benchmark.h"

#include <gtest/gtest.h>

#include "prenorm/base/error.h"
#include "tests/config_of.h"

namespace prenorm {
namespace {

GptConfig small_config() { return config_of(2, 2, 16, 12, 11); }

TEST(GenerationBenchmark, times_a_prompt_and_the_tokens_after_it) {
  const GenerationLoad load{.prompt_tokens = 8, .tokens = 4, .sequences = 3, .format = {}};
  const GenerationTimes times = time_generation(Runtime(), small_config(), load, 0.0);
  EXPECT_GT(times.prompt_seconds, 0.0);
  EXPECT_GT(times.step_seconds, 0.0);
  EXPECT_GE(times.decode_seconds, times.step_seconds);
  // Two layers of 12 · 16² weights for 8 tokens, scores and values of 8² / 2 pairs, one head.
  EXPECT_EQ(times.prompt_flops, 3 * (2.0 * 2 * 12 * 256 * 8 + 2 * 2 * 64 * 16 + 2 * 11 * 16));
}

TEST(GenerationBenchmark, weights_in_bfloat16_are_half_as_many_bytes) {
  GenerationLoad load{.prompt_tokens = 4, .tokens = 2, .sequences = 1, .format = {}};
  const auto wide = time_generation(Runtime(), small_config(), load, 0.0).weight_bytes;
  load.format = kernels::WeightFormat::kBfloat16;
  EXPECT_EQ(time_generation(Runtime(), small_config(), load, 0.0).weight_bytes * 2, wide);
  EXPECT_EQ(wide, 4u * (2 * 12 * 256 + 11 * 16));
}

TEST(GenerationBenchmark, a_context_without_room_is_refused) {
  const GenerationLoad load{.prompt_tokens = 10, .tokens = 3, .sequences = 1, .format = {}};
  EXPECT_THROW(time_generation(Runtime(), small_config(), load, 0.0), ConfigError);
}

}  // namespace
}  // namespace prenorm
