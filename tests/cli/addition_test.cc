#include "prenorm/cli/addition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/run_fixture.h"

namespace prenorm::cli {
namespace {

using testing::HasSubstr;

using AdditionVerb = RunFixture;

TEST_F(AdditionVerb, addition_writes_problems_and_grades_a_model) {
  EXPECT_EQ(run({"addition", "--write", "sums", "--digits", "1"}).code, 0);
  const std::string text = slurp(scratch_ / "sums/train.txt");
  EXPECT_THAT(text, HasSubstr("="));
  const auto result = json({"addition", "--grade", "run", "--data", "sums/heldout.txt", "--json"});
  EXPECT_EQ(result["right"], 0);  // it has only read of cats and dogs
  EXPECT_EQ(
      run({"addition", "--grade", "run", "--data", "sums/heldout.txt", "--at-least", "0.5"}).code,
      1);
  expect_error(run({"addition"}), 2,
               "addition: expected --write DIR or --grade DIR, found neither");
}

}  // namespace
}  // namespace prenorm::cli
