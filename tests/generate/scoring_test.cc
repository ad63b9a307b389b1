#include "prenorm/generate/scoring.h"

#include <gtest/gtest.h>

#include "prenorm/base/error.h"
#include "prenorm/generate/generator.h"
#include "tests/config_of.h"

namespace prenorm {
namespace {

class Scoring : public testing::Test {
 protected:
  Scoring() : run_({.threads = 1}), model_(config(), Gpt::Mode::kInference) {
    model_.initialize(3);
  }
  static GptConfig config() {
    GptConfig config = config_of(2, 2, 16, 8, 23);
    config.initializer_range = 0.3;
    return config;
  }

  Runtime run_;
  Gpt model_;
};

TEST_F(Scoring, the_scores_of_what_was_generated_are_its_log_probabilities) {
  const std::vector<TokenId> prompt = {5, 1, 9};
  GenerateOptions options;
  options.sampler.temperature = 1.0;
  options.max_new_tokens = 20;  // far beyond the context
  options.logprobs = true;
  const GenerateRequest request{prompt, {.seed = 1}};
  const Generation made = generate(run_, model_, {&request, 1}, options).front();
  std::vector<TokenId> all = prompt;
  all.insert(all.end(), made.ids.begin(), made.ids.end());
  const std::vector<float> scores = score_tokens(run_, model_, all);
  ASSERT_EQ(scores.size(), 22u);
  EXPECT_EQ(std::vector<float>(scores.begin() + 2, scores.end()), made.logprobs);
}

TEST_F(Scoring, one_token_has_no_score_and_wrong_ones_are_refused) {
  EXPECT_TRUE(score_tokens(run_, model_, std::vector<TokenId>{4}).empty());
  EXPECT_THROW(score_tokens(run_, model_, {}), DataError);
  EXPECT_THROW(score_tokens(run_, model_, std::vector<TokenId>{1, 23}), ShapeError);
}

}  // namespace
}  // namespace prenorm
