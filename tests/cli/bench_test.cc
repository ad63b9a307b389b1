#include "prenorm/cli/bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/run_program.h"

namespace prenorm::cli {
namespace {

TEST(BenchVerb, limits_are_positive) {
  const Scratch scratch;
  const Ran ran =
      run_program(scratch, {"bench", "limits", "--seconds", "0.02", "--threads", "1", "--json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const auto result = nlohmann::json::parse(ran.out);
  EXPECT_GT(result["fma_gflops_per_second"].get<double>(), 0.0);
  EXPECT_GT(result["read_gb_per_second"].get<double>(), 0.0);
  EXPECT_EQ(result["hand_over_us"], 0.0);
  EXPECT_EQ(result["threads"], 1);
}

TEST(BenchVerb, a_training_step_is_timed_with_its_arithmetic_and_memory) {
  const Scratch scratch;
  const Ran ran =
      run_program(scratch, {"bench", "train", "--n-layer", "1", "--n-head", "2", "--n-embd", "16",
                            "--block-size", "8", "--batch-size", "2", "--vocab-size", "32",
                            "--seconds", "0.05", "--threads", "1", "--json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const auto result = nlohmann::json::parse(ran.out);
  EXPECT_GT(result["step_ms_min"].get<double>(), 0.0);
  EXPECT_LE(result["step_ms_min"].get<double>(), result["step_ms_median"].get<double>());
  EXPECT_GT(result["tokens_per_second"].get<double>(), 0.0);
  EXPECT_GT(result["gflop_per_step"].get<double>(), 0.0);
  EXPECT_GT(result["peak_rss_mb"].get<double>(), 0.0);
}

TEST(BenchVerb, generation_is_timed_for_prompts_and_for_new_tokens) {
  const Scratch scratch;
  for (const char* weights : {"f32", "bf16"}) {
    const Ran ran = run_program(
        scratch, {"bench",     "generate", "--n-layer",    "1",  "--n-head",        "2",
                  "--n-embd",  "16",       "--vocab-size", "32", "--prompt-tokens", "5",
                  "--tokens",  "3",        "--sequences",  "2",  "--weights",       weights,
                  "--seconds", "0.05",     "--threads",    "1",  "--json"});
    ASSERT_EQ(ran.code, 0) << ran.err;
    const auto result = nlohmann::json::parse(ran.out);
    EXPECT_GT(result["prompt_tokens_per_second"].get<double>(), 0.0);
    EXPECT_GT(result["decode_tokens_per_second"].get<double>(), 0.0);
    EXPECT_GT(result["weights_gb_per_second"].get<double>(), 0.0);
  }
  expect_error(run_program(scratch, {"bench", "generate", "--block-size", "8"}), 2,
               "block-size: expected room for 512 prompt and 64 new tokens, found 8");
}

TEST(BenchVerb, what_to_measure_is_one_of_six) {
  const Scratch scratch;
  expect_error(run_program(scratch, {"bench"}), 2,
               "bench: expected one of train, generate, layers, attention, matmul, limits");
  expect_error(
      run_program(scratch, {"bench", "speed"}), 2,
      "bench: expected one of train, generate, layers, attention, matmul, limits, found 'speed'");
}

}  // namespace
}  // namespace prenorm::cli
