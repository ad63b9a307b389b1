#include "prenorm/train/evaluation.h"

#include <gtest/gtest.h>

#include <vector>

#include "prenorm/base/error.h"
#include "tests/tolerances.h"
#include "tests/train/local_ranks.h"
#include "tests/train/small_run.h"

namespace prenorm {
namespace {

using testing_support::small_config;
using testing_support::small_text;

class Evaluation : public ::testing::Test {
 protected:
  Evaluation() : run_({.threads = 1}), model_(config()), work_(model_.make_workspace(4, 16)) {
    model_.initialize(3);
    for (float& value : model_.parameters().values()) value *= 8;  // losses that differ
  }
  static GptConfig config() { return small_config(); }

  // Σ loss over the targets of one window.
  double window(const std::vector<TokenId>& text, Index start, Index length) {
    const TokenId* first = text.data() + start;
    return model_
        .evaluate(run_, work_,
                  {TokenMatrix(first, {1, length}), TokenMatrix(first + 1, {1, length})})
        .loss;
  }
  std::optional<double> mean(const std::vector<TokenId>& text, Index time, Index batch,
                             Index max_windows = 0) {
    return evaluate_windows(run_, model_, work_, text,
                            {.time = time, .batch = batch, .max_windows = max_windows});
  }

  Runtime run_;
  Gpt model_;
  Gpt::Workspace work_;
};

TEST_F(Evaluation, every_token_weighs_the_same_in_full_short_and_last_batches) {
  const std::vector<TokenId> text = small_text(11 * 8 + 4);  // 11 windows of 8, one of 3
  double sum = 0;
  for (Index w = 0; w < 11; ++w) sum += window(text, 8 * w, 8);
  sum += window(text, 88, 3);
  for (const Index batch : {1, 2, 3, 4}) {
    EXPECT_NEAR(*mean(text, 8, batch), sum / 91, tolerance::kDoubleSum) << "batch " << batch;
  }
}

TEST_F(Evaluation, some_windows_are_spread_evenly_and_always_the_same) {
  const std::vector<TokenId> text = small_text(10 * 8 + 1);
  const double expected =
      (window(text, 0, 8) + window(text, 24, 8) + window(text, 48, 8)) / 24;  // 0, 3 and 6 of 10
  EXPECT_NEAR(*mean(text, 8, 4, 3), expected, tolerance::kDoubleSum);
  EXPECT_EQ(*mean(text, 8, 4, 10), *mean(text, 8, 4));
  EXPECT_EQ(*mean(text, 8, 4, 99), *mean(text, 8, 4));
}

TEST_F(Evaluation, a_text_shorter_than_a_window_is_one_short_window) {
  const std::vector<TokenId> text = small_text(4);
  EXPECT_NEAR(*mean(text, 8, 4), window(text, 0, 3) / 3, tolerance::kDoubleSum);
}

TEST_F(Evaluation, without_a_token_to_predict_there_is_no_loss) {
  EXPECT_FALSE(mean({}, 8, 4));
  EXPECT_FALSE(mean({1}, 8, 4));
}

TEST_F(Evaluation, a_stop_between_two_passes_gives_no_loss) {
  const std::vector<TokenId> text = small_text(81);
  int polls = 0;
  EXPECT_FALSE(evaluate_windows(run_, model_, work_, text, {.time = 8, .batch = 4},
                                [&] { return ++polls == 2; }));
  EXPECT_EQ(polls, 2);
}

TEST_F(Evaluation, ranks_share_the_passes_and_get_the_bits_of_one_alone) {
  const std::vector<TokenId> text = small_text(11 * 8 + 4);
  for (const Index batch : {1, 2, 3, 4}) {
    const double alone = *mean(text, 8, batch);
    for (const int size : {1, 2, 3, 5}) {
      testing_support::in_ranks(size, [&](Ranks& ranks) {
        const Runtime run({.threads = 1});
        Gpt::Workspace work = model_.make_workspace(4, 16);
        const EvaluationOptions options{.time = 8, .batch = batch};
        const auto loss = evaluate_windows(run, model_, work, text, options, {}, &ranks);
        EXPECT_EQ(*loss, alone) << "ranks " << size << ", batch " << batch;
        int polls = 0;  // the same on all ranks: each answer is agreed on
        EXPECT_FALSE(evaluate_windows(
            run, model_, work, text, {.time = 8, .batch = 1},
            [&] { return any(ranks, ++polls == 2 && ranks.rank() + 1 == size); }, &ranks));
        EXPECT_EQ(polls, 2);
      });
    }
  }
}

TEST_F(Evaluation, overlapping_windows_predict_each_token_once_after_what_the_guide_gives_it) {
  const std::vector<TokenId> text = small_text(29);
  // Windows of 8 tokens every 3: the first predicts 7, each later one its last 3.
  double sum = window(text, 0, 7);
  for (Index begin = 3; begin + 8 <= 29; begin += 3) {
    sum += window(text, begin, 7) - window(text, begin, 4);
  }
  for (const Index batch : {1, 2, 99}) {
    const auto found = evaluate_strided(run_, model_, text, {8, 3, batch});
    ASSERT_TRUE(found);
    EXPECT_EQ(found->count, 28);
    EXPECT_NEAR(found->loss, sum, tolerance::kDoubleSum * 28) << "batch " << batch;
  }
}

TEST_F(Evaluation, a_last_overlapping_window_may_be_short) {
  const std::vector<TokenId> text = small_text(12);  // [0, 8), [5, 12)
  const auto found = evaluate_strided(run_, model_, text, {8, 5, 4});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->count, 11);
  EXPECT_NEAR(found->loss, window(text, 0, 7) + window(text, 5, 6) - window(text, 5, 2),
              tolerance::kDoubleSum * 11);
}

TEST_F(Evaluation, windows_that_do_not_overlap_leave_their_first_tokens_out) {
  const std::vector<TokenId> text = small_text(17);  // [0, 8), [8, 16), and one token alone
  const auto found = evaluate_strided(run_, model_, text, {8, 8, 4});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->count, 14);
  EXPECT_NEAR(found->loss, window(text, 0, 7) + window(text, 8, 7), tolerance::kDoubleSum * 14);
}

TEST_F(Evaluation, a_stride_must_lie_within_a_window_and_a_window_within_the_context) {
  const std::vector<TokenId> text = small_text(20);
  for (const auto& [window, stride] : {std::pair<Index, Index>{17, 4}, {1, 1}, {8, 0}, {8, 9}}) {
    EXPECT_THROW(evaluate_strided(run_, model_, text, {window, stride, 1}), ConfigError);
  }
  EXPECT_FALSE(evaluate_strided(run_, model_, std::vector<TokenId>{1}, {8, 4, 1}));
}

}  // namespace
}  // namespace prenorm
