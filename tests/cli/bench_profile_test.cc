#include "prenorm/cli/bench_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/run_program.h"

namespace prenorm::cli {
namespace {

TEST(BenchProfile, the_parts_of_a_step_add_up_to_it) {
  const Scratch scratch;
  const std::vector<std::string> flags = {
      "bench",        "train", "--n-layer",    "1", "--n-head",     "2",  "--n-embd",  "16",
      "--block-size", "8",     "--batch-size", "2", "--vocab-size", "32", "--seconds", "0.05",
      "--threads",    "1",     "--profile"};
  std::vector<std::string> with_json = flags;
  with_json.emplace_back("--json");
  const Ran ran = run_program(scratch, with_json);
  ASSERT_EQ(ran.code, 0) << ran.err;
  double share = 0.0;
  const auto parts = nlohmann::json::parse(ran.out)["profile"]["parts"];
  ASSERT_EQ(parts.size(), 9u);
  EXPECT_EQ(parts[0]["part"], "matmul");
  EXPECT_GT(parts[0]["share_of_limit"].get<double>(), 0.0);
  for (const auto& part : parts)
    share += part["part"] == "idle" ? 0.0 : part["share"].get<double>();
  EXPECT_NEAR(share, 1.0, 1e-9);
  EXPECT_THAT(run_program(scratch, flags).out, testing::HasSubstr("head + loss"));
}

}  // namespace
}  // namespace prenorm::cli
