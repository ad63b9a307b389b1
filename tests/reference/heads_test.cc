#include "prenorm/reference/heads.h"

#include <gtest/gtest.h>

namespace prenorm::reference {
namespace {

// [1, 2, 12]: 2 tokens, 2 heads of width 2; the number at (t, column) is 100 t + column.
Tensor<double> numbered() {
  Tensor<double> qkv({1, 2, 12});
  for (Index t = 0; t < 2; ++t) {
    for (Index c = 0; c < 12; ++c) qkv(t, c) = static_cast<double>(100 * t + c);
  }
  return qkv;
}

std::vector<double> second_head(char part, const AttentionMistakes& mistakes) {
  HeadPlace head = check_heads(numbered(), 2, mistakes);
  head.h = 1;
  return take_head(numbered(), head, part, mistakes).values();
}

TEST(Heads, each_way_of_cutting_by_hand) {
  using Values = std::vector<double>;
  EXPECT_EQ(second_head('q', {}), (Values{2, 3, 102, 103}));
  EXPECT_EQ(second_head('k', {}), (Values{6, 7, 106, 107}));
  EXPECT_EQ(second_head('v', {}), (Values{10, 11, 110, 111}));
  EXPECT_EQ(second_head('q', {.qkv_order = "vqk"}), (Values{6, 7, 106, 107}));
  EXPECT_EQ(second_head('k', {.split = HeadSplit::kInterleaved}), (Values{8, 9, 108, 109}));
  EXPECT_EQ(second_head('k', {.split = HeadSplit::kHeadAxes}), (Values{5, 7, 105, 107}));
  EXPECT_EQ(second_head('k', {.split = HeadSplit::kNoTranspose}), (Values{104, 105, 106, 107}));
}

TEST(Heads, outputs_are_put_side_by_side_or_by_mistake_one_after_another) {
  HeadPlace head = check_heads(numbered(), 2, {});
  head.h = 1;
  const Tensor<double> o({2, 2}, {1, 2, 3, 4});
  Tensor<double> merged({1, 2, 4}), mistaken({1, 2, 4});
  put_merged(o, head, {}, merged);
  put_merged(o, head, {.no_merge_transpose = true}, mistaken);
  EXPECT_EQ(merged.values(), (std::vector<double>{0, 0, 1, 2, 0, 0, 3, 4}));
  EXPECT_EQ(mistaken.values(), (std::vector<double>{0, 0, 0, 0, 1, 2, 3, 4}));
  EXPECT_EQ(take_merged(merged, head), o);
}

TEST(Heads, a_head_goes_back_where_it_was_taken) {
  HeadPlace head = check_heads(numbered(), 2, {});
  Tensor<double> back({1, 2, 12});
  for (head.h = 0; head.h < 2; ++head.h) {
    for (const char part : {'q', 'k', 'v'})
      put_head(take_head(numbered(), head, part), head, part, back);
  }
  EXPECT_EQ(back, numbered());
}

}  // namespace
}  // namespace prenorm::reference
