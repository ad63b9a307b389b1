#include "prenorm/study/check_bits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "prenorm/base/error.h"
#include "tests/study/check_fixture.h"

namespace prenorm {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> names(const std::vector<Property>& found) {
  std::vector<std::string> out;
  for (const Property& p : found) out.push_back(p.name);
  return out;
}

TEST(CheckBits, models_of_each_kind_have_the_properties) {
  for (const GptConfig& config : each_kind()) {
    const auto found = checked(check_bits, config);
    EXPECT_THAT(names(found), ElementsAre("causality", "batch", "cache", "threads"));
    EXPECT_THAT(failures(found), IsEmpty()) << name(config);
  }
}

TEST(CheckBits, what_a_model_is_too_small_for_is_left_out) {
  GptConfig one = small_config();
  one.block_size = 1;
  EXPECT_THAT(names(checked(check_bits, one)), ElementsAre("batch", "threads"));
  GptConfig two = small_config();
  two.block_size = 2;
  EXPECT_THAT(failures(checked(check_bits, two)), IsEmpty());
}

// The logits of a defect: what the model says, and one number moved where `where` says.
template <typename Where>
CheckSeams with_moved_logit(Where where) {
  CheckSeams seams;
  const auto correct = seams.logits;
  seams.logits = [correct, where](const Runtime& run, const Gpt& model, Gpt::Workspace& work,
                                  TokenMatrix tokens, Matrix out) {
    correct(run, model, work, tokens, out);
    where(run, tokens, out);
  };
  return seams;
}

TEST(CheckBits, a_glimpse_of_the_next_token_is_found) {
  const auto seams = with_moved_logit([](const Runtime&, TokenMatrix tokens, Matrix out) {
    const Index time = tokens.dim(1);
    for (Index row = 0; row < out.dim(0); ++row) {
      const bool last = row % time == time - 1;
      if (!last && tokens[row / time][row % time + 1] % 2 == 1) nudge(out[row][3]);
    }
  });
  EXPECT_THAT(failures(checked(check_bits, small_config(), seams)),
              ElementsAre("causality", "cache"));
}

TEST(CheckBits, a_sequence_that_depends_on_its_neighbours_is_found) {
  const auto seams = with_moved_logit([](const Runtime&, TokenMatrix tokens, Matrix out) {
    if (tokens.dim(0) > 1) nudge(out[out.dim(0) - 1][0]);
  });
  const auto found = failures(checked(check_bits, small_config(), seams));
  EXPECT_THAT(found, testing::Contains("batch"));
  EXPECT_THAT(found, testing::Not(testing::Contains("threads")));
}

TEST(CheckBits, a_number_of_threads_that_changes_a_bit_is_found) {
  const auto seams = with_moved_logit([](const Runtime& run, TokenMatrix, Matrix out) {
    if (run.threads() == 3) nudge(out[0][0]);
  });
  EXPECT_THAT(failures(checked(check_bits, small_config(), seams)), ElementsAre("threads"));
}

TEST(CheckBits, a_cache_that_changes_a_bit_is_found) {
  CheckSeams seams;
  const auto correct = seams.decode;
  seams.decode = [correct](const Runtime& run, const Gpt& model, Gpt::Cache& cache,
                           TokenMatrix tokens, Matrix last) {
    correct(run, model, cache, tokens, last);
    if (tokens.dim(1) == 2) nudge(last[1][5]);
  };
  EXPECT_THAT(failures(checked(check_bits, small_config(), seams)), ElementsAre("cache"));
}

TEST(CheckBits, a_model_that_says_the_same_whatever_the_token_proves_nothing_of_causality) {
  const Runtime run({.threads = 1});
  const Gpt zero(small_config(), Gpt::Mode::kInference);
  const CheckSeams seams;
  const auto found = check_bits({run, zero, seams, 1, {}});
  EXPECT_THAT(failures(found), ElementsAre("causality"));
  EXPECT_TRUE(found.front().vacuous);
}

TEST(CheckBits, logits_that_are_not_finite_are_a_numerical_error) {
  const auto seams = with_moved_logit([](const Runtime&, TokenMatrix, Matrix out) {
    out[2][1] = std::numeric_limits<float>::infinity();
  });
  EXPECT_THROW(checked(check_bits, small_config(), seams), NumericalError);
}

}  // namespace
}  // namespace prenorm
