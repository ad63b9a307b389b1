#include "prenorm/cli/addition_problems.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>

#include "prenorm/base/error.h"

namespace prenorm::cli {
namespace {

using Pairs = std::set<std::pair<int, int>>;

Pairs pairs_of(const std::vector<AdditionProblem>& problems) {
  Pairs pairs;
  for (const auto& [a, b] : problems) pairs.insert({a, b});
  return pairs;
}

TEST(AdditionProblems, every_pair_is_in_one_part_once) {
  const AdditionProblems problems = make_addition_problems(2, 1);
  EXPECT_EQ(problems.training.size() + problems.held_out.size(), 10000u);
  EXPECT_EQ(pairs_of(problems.training).size(), problems.training.size());
  Pairs all = pairs_of(problems.training);
  all.merge(pairs_of(problems.held_out));
  EXPECT_EQ(all.size(), 10000u);
  EXPECT_GE(problems.held_out.size(), 500u);
}

TEST(AdditionProblems, a_held_out_sum_is_not_trained_on_the_other_way_round) {
  const AdditionProblems problems = make_addition_problems(2, 3);
  const Pairs training = pairs_of(problems.training);
  for (const auto& [a, b] : problems.held_out) EXPECT_EQ(training.count({b, a}), 0u);
}

TEST(AdditionProblems, the_seed_decides) {
  const auto one = make_addition_problems(2, 1), again = make_addition_problems(2, 1);
  EXPECT_EQ(addition_text(one.held_out, 2), addition_text(again.held_out, 2));
  const auto two = make_addition_problems(2, 2);
  EXPECT_NE(pairs_of(one.held_out), pairs_of(two.held_out));
}

TEST(AdditionProblems, a_text_reads_back_as_prompts_and_answers) {
  const std::string text = addition_text({{47, 85}, {3, 4}}, 2);
  const auto lines = parse_addition_text(text, "sums");
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].prompt, addition_prompt({47, 85}, 2));
  EXPECT_EQ(lines[0].answer, addition_answer({47, 85}, 2));
}

TEST(AdditionProblems, a_line_that_is_no_problem_is_named) {
  EXPECT_THROW(parse_addition_text("", "sums"), DataError);
  try {
    parse_addition_text("47+85=132\nhello\n", "sums");
    FAIL();
  } catch (const DataError& error) {
    EXPECT_STREQ(error.what(),
                 "sums: expected a problem such as 47+85=132 in line 2, found 'hello'");
  }
}

}  // namespace
}  // namespace prenorm::cli
