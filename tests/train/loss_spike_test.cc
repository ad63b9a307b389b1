#include "prenorm/train/loss_spike.h"

#include <gtest/gtest.h>

namespace prenorm {
namespace {

// Losses between 2.0 and 2.3, in no order.
double usual(Index i) { return 2.0 + 0.1 * static_cast<double>(i * 7 % 4); }

TEST(LossSpikes, a_loss_far_above_the_median_is_told_with_what_it_was_beyond) {
  RecentLosses spikes;
  for (Index i = 0; i < 40; ++i) EXPECT_FALSE(spikes.add(i, usual(i))) << i;
  const auto spike = spikes.add(41, 9.0);
  ASSERT_TRUE(spike);
  EXPECT_EQ(spike->iter, 41);
  EXPECT_EQ(spike->loss, 9.0);
  EXPECT_NEAR(spike->median, 2.2, 1e-12);
  EXPECT_NEAR(spike->limit, 1.5 * 2.2 + 6 * 1.4826 * 0.1, 1e-12);
}

TEST(LossSpikes, just_below_the_limit_is_none) {
  RecentLosses spikes;
  for (Index i = 0; i < 40; ++i) spikes.add(i, usual(i));
  EXPECT_FALSE(spikes.add(41, 1.5 * 2.2 + 6 * 1.4826 * 0.1 - 1e-9));
}

TEST(LossSpikes, losses_that_stay_up_are_told_once_until_they_come_down) {
  RecentLosses spikes;
  for (Index i = 0; i < 40; ++i) spikes.add(i, usual(i));
  EXPECT_TRUE(spikes.add(40, 9.0));
  EXPECT_FALSE(spikes.add(41, 9.5));
  EXPECT_FALSE(spikes.add(42, 2.1));
  EXPECT_TRUE(spikes.add(43, 9.0));
}

TEST(LossSpikes, the_beginning_of_a_training_and_one_that_falls_have_none) {
  RecentLosses spikes;
  EXPECT_FALSE(spikes.add(0, 1.0));
  EXPECT_FALSE(spikes.add(1, 50.0));  // nothing to compare with yet
  RecentLosses falling;
  for (Index i = 0; i < 300; ++i) EXPECT_FALSE(falling.add(i, 5.0 / (1.0 + 0.01 * double(i))));
}

TEST(LossSpikes, what_is_remembered_tells_the_same_elsewhere) {
  RecentLosses one, other;
  for (Index i = 0; i < 100; ++i) one.add(i, i % 20 == 19 ? 9.0 : usual(i));
  EXPECT_EQ(one.losses.size(), 64u);
  other = one;
  for (Index i = 100; i < 200; ++i) {
    const double loss = i % 13 == 0 ? 9.0 : usual(i);
    EXPECT_EQ(one.add(i, loss).has_value(), other.add(i, loss).has_value()) << i;
  }
  EXPECT_EQ(one.losses, other.losses);
  other.losses.assign(1000, 1.0);
  other.add(200, 1.0);
  EXPECT_EQ(other.losses.size(), 64u);
}

}  // namespace
}  // namespace prenorm
