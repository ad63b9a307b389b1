#include "prenorm/reference/attention_mask.h"

#include <gtest/gtest.h>

namespace prenorm::reference {
namespace {

TEST(AttentionMask, the_causal_rule_and_its_mistakes_by_hand) {
  const auto seen = [](MaskMistake mistake, Index past = 0) {
    AttentionMistakes mistakes;
    mistakes.mask = mistake;
    std::string rows;
    for (Index t = 0; t < 3; ++t) {
      for (Index s = 0; s < 3 + past; ++s) {
        rows += causally_blocked(t, s, past, mistakes) ? '-' : 'x';
      }
      rows += ' ';
    }
    return rows;
  };
  EXPECT_EQ(seen(MaskMistake::kNone), "x-- xx- xxx ");
  EXPECT_EQ(seen(MaskMistake::kNone, 2), "xxx-- xxxx- xxxxx ");
  EXPECT_EQ(seen(MaskMistake::kOff), "xxx xxx xxx ");
  EXPECT_EQ(seen(MaskMistake::kShifted), "xx- xxx xxx ");
  EXPECT_EQ(seen(MaskMistake::kInverted), "xxx -xx --x ");
}

TEST(AttentionMask, each_kind_blocks_where_it_says) {
  AttentionMask mask;
  mask.blocked = Tensor<unsigned char>({2, 2}, {0, 1, 0, 0});
  EXPECT_TRUE(masked(mask, 0, 0, 0, 1));
  EXPECT_FALSE(masked(mask, 0, 0, 1, 0));
  mask = {};
  mask.added = Tensor<double>({2, 2}, {0.0, -1e300, -std::numeric_limits<double>::infinity(), 1.0});
  EXPECT_FALSE(masked(mask, 0, 0, 0, 1));
  EXPECT_TRUE(masked(mask, 0, 0, 1, 0));
  mask = {};
  mask.key_padding = Tensor<unsigned char>({2, 2}, {0, 0, 1, 0});
  EXPECT_FALSE(masked(mask, 0, 0, 1, 0));
  EXPECT_TRUE(masked(mask, 1, 0, 1, 0));
}

TEST(AttentionMask, one_of_four_axes_is_for_each_head_and_broadcasts_from_one) {
  AttentionMask mask;
  mask.added = Tensor<double>({2, 1, 1, 2}, {1.0, 2.0, 3.0, 4.0});  // the same for each head
  EXPECT_NO_THROW(check_mask(mask, 2, 1, 2, 5));
  EXPECT_EQ(mask_addend(mask, 1, 4, 0, 1), 4.0);
  mask.added = Tensor<double>({1, 2, 1, 2}, {1.0, 2.0, 3.0, 4.0});  // the same for each sequence
  EXPECT_NO_THROW(check_mask(mask, 7, 1, 2, 2));
  EXPECT_EQ(mask_addend(mask, 6, 0, 0, 1), 2.0);
  EXPECT_EQ(mask_addend(mask, 6, 1, 0, 0), 3.0);
  EXPECT_THROW(check_mask(mask, 7, 1, 2, 3), ShapeError);
}

TEST(AttentionMask, shapes_that_do_not_fit_are_named) {
  AttentionMask mask;
  mask.key_padding = Tensor<unsigned char>({4, 2});
  EXPECT_NO_THROW(check_mask(mask, 4, 3, 2));
  try {
    check_mask(mask, 2, 3, 2);
    FAIL() << "no error";
  } catch (const ShapeError& error) {
    EXPECT_STREQ(error.what(), "attention: key_padding_mask: expected [2, 2], found [4, 2]");
  }
}

}  // namespace
}  // namespace prenorm::reference
