#include "prenorm/study/attention_masks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "prenorm/base/error.h"
#include "tests/memory_file.h"

namespace prenorm {
namespace {

using testing::ThrowsMessage;
using Values = reference::Tensor<double>;
constexpr double kBlocked = -std::numeric_limits<double>::infinity();
constexpr ScoreShape kShape{2, 3, 1, 2};

reference::AttentionMask read(const TensorFile& file, const ScoreShape& shape = kShape) {
  return read_attention_masks(file, file.find("attn_mask"), file.find("key_padding_mask"), shape);
}

TEST(AttentionMasks, none_is_none) {
  const reference::AttentionMask mask = read(MemoryFile().file());
  EXPECT_TRUE(mask.added.absent() && mask.key_padding.absent());
}

TEST(AttentionMasks, true_blocks_and_numbers_are_added_in_every_shape) {
  const Values blocks({1, 1, 1, 2}, {0, kBlocked});
  EXPECT_EQ(read(MemoryFile().bools("attn_mask", {1, 2}, {0, 1}).file()).added, blocks);
  EXPECT_EQ(read(MemoryFile().floats("attn_mask", {1, 2}, {0, -INFINITY}).file()).added, blocks);
  EXPECT_EQ(read(MemoryFile().doubles("attn_mask", {1, 2}, {0.1, 2}).file()).added,
            Values({1, 1, 1, 2}, {0.1, 2}));
  EXPECT_EQ(read(MemoryFile().ramp("attn_mask", {6, 1, 2}).file()).added.shape(),
            (std::vector<Index>{2, 3, 1, 2}));
  EXPECT_EQ(read(MemoryFile().ramp("attn_mask", {2, 1, 1, 2}).file()).added.shape(),
            (std::vector<Index>{2, 1, 1, 2}));
}

TEST(AttentionMasks, padding_in_bool_stays_apart_and_in_numbers_joins_the_mask) {
  const auto padded = read(MemoryFile().bools("key_padding_mask", {2, 2}, {0, 1, 0, 0}).file());
  EXPECT_EQ(padded.key_padding, reference::Tensor<unsigned char>({2, 2}, {0, 1, 0, 0}));
  EXPECT_TRUE(padded.added.absent());
  const auto both = read(MemoryFile()
                             .floats("key_padding_mask", {2, 2}, {0, 1, 2, -INFINITY})
                             .floats("attn_mask", {1, 2}, {10, 20})
                             .file());
  EXPECT_EQ(both.added, Values({2, 1, 1, 2}, {10, 21, 12, kBlocked}));
  const ScoreShape one{1, 3, 1, 2};
  EXPECT_EQ(
      read(MemoryFile().bools("key_padding_mask", {2}, {1, 0}).file(), one).key_padding.shape(),
      (std::vector<Index>{1, 2}));
}

TEST(AttentionMasks, shapes_and_types_that_do_not_fit_are_named) {
  const auto expect_refused = [](const MemoryFile& made, const std::string& message) {
    const TensorFile file = made.file();
    EXPECT_THAT([&] { read(file); }, ThrowsMessage<FormatError>(message));
  };
  expect_refused(MemoryFile().ramp("attn_mask", {2, 2}),
                 "X: tensor 'attn_mask': expected [1, 2] or [6, 1, 2], found [2, 2]");
  expect_refused(MemoryFile().ramp("attn_mask", {3, 1, 2}),
                 "X: tensor 'attn_mask': expected [1, 2] or [6, 1, 2], found [3, 1, 2]");
  expect_refused(MemoryFile().integers("attn_mask", {1, 2}, {0, 1}),
                 "X: tensor 'attn_mask': expected dtype BOOL or a floating-point one, found I64");
  expect_refused(MemoryFile().ramp("key_padding_mask", {2}),
                 "X: tensor 'key_padding_mask': expected [2, 2], found [2]");
}

TEST(AttentionMasks, the_mask_of_scores_broadcasts_and_lets_see_where_it_is_true) {
  const std::vector<Index> leading{2, 3};
  const TensorFile row = MemoryFile().bools("m", {2}, {0, 1}).file();
  EXPECT_EQ(read_score_mask(row, row.tensors()[0], leading, 1, 2).added,
            Values({1, 1, 1, 2}, {kBlocked, 0}));
  const TensorFile heads = MemoryFile().floats("m", {3, 1, 1}, {1, 2, 3}).file();
  EXPECT_EQ(read_score_mask(heads, heads.tensors()[0], leading, 1, 2).added,
            Values({6, 1, 1, 2}, {1, 1, 2, 2, 3, 3, 1, 1, 2, 2, 3, 3}));
  const TensorFile wrong = MemoryFile().ramp("m", {2, 1, 1}).file();
  EXPECT_THAT([&] { read_score_mask(wrong, wrong.tensors()[0], leading, 1, 2); },
              ThrowsMessage<FormatError>("X: tensor 'm': expected a shape that broadcasts to "
                                         "[2, 3, 1, 2], found [2, 1, 1]"));
}

}  // namespace
}  // namespace prenorm
