#include "prenorm/train/step_pieces.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace prenorm {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<Index> sizes(const StepPieces& pieces) {
  std::vector<Index> out;
  for (const StepPiece& piece : pieces.list()) out.push_back(piece.sequences);
  return out;
}

TEST(StepPieces, cover_the_step_in_order_and_begin_at_whole_blocks_of_tokens) {
  for (int ranks = 1; ranks <= 5; ++ranks) {
    for (Index batch : {1, 2, 3, 5, 7, 12, 16}) {
      for (Index micro_batches : {1, 2, 3, 4, 8}) {
        for (Index time : {1, 16, 64, 96, 100, 256, 300, 1024}) {
          const StepPieces pieces(batch, micro_batches, time, ranks);
          Index at = 0;
          for (const StepPiece& piece : pieces.list()) {
            ASSERT_EQ(piece.first_sequence, at);
            ASSERT_GT(piece.sequences, 0);
            const Index within = at % batch;
            ASSERT_EQ(piece.begins_micro_batch, within == 0);
            ASSERT_EQ(within * time % 256, 0) << "a cut inside a block of tokens";
            ASSERT_LE(within + piece.sequences, batch);
            at += piece.sequences;
          }
          ASSERT_EQ(at, batch * micro_batches);
        }
      }
    }
  }
}

TEST(StepPieces, one_rank_takes_the_micro_batches_as_they_are) {
  EXPECT_THAT(sizes(StepPieces(12, 3, 256, 1)), ElementsAre(12, 12, 12));
}

TEST(StepPieces, are_cut_where_ranks_would_idle) {
  EXPECT_THAT(sizes(StepPieces(12, 3, 64, 2)), Each(4)) << "5 and 4 of them";
  EXPECT_THAT(sizes(StepPieces(8, 1, 256, 4)), ElementsAre(2, 2, 2, 2));
  EXPECT_DOUBLE_EQ(StepPieces(8, 1, 256, 4).efficiency(), 1.0);
  EXPECT_FALSE(StepPieces(8, 1, 256, 4).notice());
}

TEST(StepPieces, are_cut_further_where_a_rank_would_have_few_large_ones) {
  EXPECT_THAT(sizes(StepPieces(12, 2, 256, 2)), ElementsAre(6, 6, 6, 6));
  EXPECT_THAT(sizes(StepPieces(12, 4, 256, 2)), Each(12));
  EXPECT_THAT(sizes(StepPieces(4, 2, 256, 2)), ElementsAre(4, 4)) << "512 tokens are too few";
}

TEST(StepPieces, say_what_to_change_where_ranks_idle) {
  const StepPieces pieces(3, 1, 64, 2);  // 192 tokens: nothing to cut
  EXPECT_THAT(sizes(pieces), ElementsAre(3));
  EXPECT_DOUBLE_EQ(pieces.efficiency(), 0.5);
  ASSERT_TRUE(pieces.notice());
  EXPECT_THAT(*pieces.notice(), HasSubstr("2 ranks are at work 50 % of the time"));
  EXPECT_THAT(*pieces.notice(), HasSubstr("a multiple of 8"));
}

}  // namespace
}  // namespace prenorm
