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

}  // namespace
}  // namespace prenorm::cli
