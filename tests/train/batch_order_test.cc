#include "prenorm/train/batch_order.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <vector>

namespace prenorm {
namespace {

std::vector<TokenId> ascending(Index n) {
  std::vector<TokenId> out(static_cast<std::size_t>(n));
  std::iota(out.begin(), out.end(), 1);
  return out;
}

TEST(BatchOrder, every_start_can_be_drawn_and_none_beyond) {
  std::set<Index> seen;
  for (Index s = 0; s < 200; ++s) seen.insert(window_start(7, 0, s, 6));
  EXPECT_EQ(seen, (std::set<Index>{0, 1, 2, 3, 4, 5}));
}

TEST(BatchOrder, starts_are_uniform) {
  constexpr Index kWindows = 11, kDraws = 22000;
  std::vector<double> counts(kWindows, 0.0);
  for (Index s = 0; s < kDraws; ++s) ++counts[static_cast<std::size_t>(window_start(3, 5, s, 11))];
  double chi_square = 0;
  const double expected = static_cast<double>(kDraws) / kWindows;
  for (const double count : counts)
    chi_square += (count - expected) * (count - expected) / expected;
  EXPECT_LT(chi_square, 29.6);  // 10 degrees of freedom: 0.1 % of honest generators exceed it
}

// Here a draw by modulo would fall into the lowest third 37.5 % of the time.
TEST(BatchOrder, a_number_of_windows_near_the_words_range_has_no_bias) {
  const Index windows = (Index{1} << 62) + (Index{1} << 61);  // 3/4 of 2^63, so 3/8 of 2^64
  Index low = 0;
  for (Index s = 0; s < 6000; ++s) low += window_start(1, 0, s, windows) < windows / 3;
  EXPECT_NEAR(static_cast<double>(low), 2000, 150);  // modulo would give 2,250
}

TEST(BatchOrder, seed_step_and_sequence_each_change_the_start) {
  constexpr Index kMany = 1'000'000'007;
  const Index base = window_start(1, 1, 1, kMany);
  EXPECT_EQ(base, window_start(1, 1, 1, kMany));
  EXPECT_NE(base, window_start(2, 1, 1, kMany));
  EXPECT_NE(base, window_start(1 | std::uint64_t{1} << 40, 1, 1, kMany));
  EXPECT_NE(base, window_start(1, 2, 1, kMany));
  EXPECT_NE(base, window_start(1, 1, 2, kMany));
}

TEST(BatchOrder, targets_are_the_inputs_one_token_later_up_to_the_last_token) {
  const std::vector<TokenId> tokens = ascending(10);
  std::vector<TokenId> inputs(64 * 4), targets(64 * 4);
  fill_batch(tokens, 1, 0, 0, 4, inputs, targets);
  std::set<TokenId> first;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_EQ(targets[i], inputs[i] + 1);
    if (i % 4 == 0) {
      first.insert(inputs[i]);
    } else {
      EXPECT_EQ(inputs[i], inputs[i - 1] + 1);
    }
  }
  EXPECT_EQ(first, (std::set<TokenId>{1, 2, 3, 4, 5, 6}));  // the last window ends in 10
}

TEST(BatchOrder, a_step_sees_the_same_windows_however_it_is_split) {
  const std::vector<TokenId> tokens = ascending(1000);
  std::vector<TokenId> inputs(12 * 8), targets(12 * 8);
  fill_batch(tokens, 9, 4, 0, 8, inputs, targets);
  for (const Index parts : {2, 3, 4, 12}) {
    std::vector<TokenId> split_inputs, split_targets;
    for (Index part = 0; part < parts; ++part) {
      const Index rows = 12 / parts;
      std::vector<TokenId> x(static_cast<std::size_t>(rows * 8)), y(x.size());
      fill_batch(tokens, 9, 4, part * rows, 8, x, y);
      split_inputs.insert(split_inputs.end(), x.begin(), x.end());
      split_targets.insert(split_targets.end(), y.begin(), y.end());
    }
    EXPECT_EQ(split_inputs, inputs);
    EXPECT_EQ(split_targets, targets);
  }
}

}  // namespace
}  // namespace prenorm
