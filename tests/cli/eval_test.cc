#include "prenorm/cli/eval.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/cli/run_fixture.h"

namespace prenorm::cli {
namespace {

using EvalVerb = RunFixture;

TEST_F(EvalVerb, eval_measures_all_tokens_but_the_first) {
  const auto result = json({"eval", "-m", "run", "text.txt", "--json"});
  const double loss = result["loss"];
  EXPECT_EQ(result["tokens"], small_text().size() - 1);
  EXPECT_NEAR(result["perplexity"].get<double>(), std::exp(loss), 1e-9);
  EXPECT_NEAR(result["bits_per_byte"].get<double>(), loss / std::log(2.0), 1e-9);
  EXPECT_EQ(json({"eval", "-m", "run", "-", "--json", "--batch-size", "1"}, small_text())["tokens"],
            result["tokens"]);
  expect_error(run({"eval", "-m", "run", "-"}, "a"), 3, "-: expected at least 2 tokens");
  expect_error(run({"eval", "-m", "run"}), 2, "--data");
}

TEST_F(EvalVerb, eval_with_a_stride_gives_each_token_more_to_go_on) {
  const auto plain = json({"eval", "-m", "run", "text.txt", "--json"});
  const auto strided = json({"eval", "-m", "run", "text.txt", "--json", "--stride", "4"});
  EXPECT_EQ(strided["tokens"], plain["tokens"]);
  EXPECT_NE(strided["loss"], plain["loss"]);
  const double loss = strided["loss"];
  EXPECT_NEAR(strided["bits_per_byte"].get<double>(), loss / std::log(2.0), 1e-9);
  const auto apart = json({"eval", "-m", "run", "text.txt", "--json", "--stride", "16"});
  const std::size_t size = small_text().size();
  EXPECT_EQ(apart["tokens"], size - (size + 15) / 16);
  EXPECT_NEAR(apart["bits_per_byte"].get<double>(), apart["loss"].get<double>() / std::log(2.0),
              1e-9);
  expect_error(run({"eval", "-m", "run", "text.txt", "--stride", "17"}), 2, "--stride: expected");
  expect_error(run({"eval", "-m", "run", "text.txt", "--stride", "5", "--window", "4"}), 2,
               "--stride: expected");
}

}  // namespace
}  // namespace prenorm::cli
