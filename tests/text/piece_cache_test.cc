#include "prenorm/text/piece_cache.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace prenorm {
namespace {

TEST(PieceCache, a_piece_is_found_until_another_takes_its_place) {
  PieceCache cache(1000);
  const std::string text = " the the", other = " then";
  const std::string_view first(text.data(), 4), second(text.data() + 4, 4);
  EXPECT_EQ(cache.find(first), nullptr);
  cache.insert(first, 17, 2);
  ASSERT_NE(cache.find(second), nullptr);
  EXPECT_EQ(cache.find(second)->begin, 17u);
  EXPECT_EQ(cache.find(second)->count, 2u);
  EXPECT_EQ(cache.find(other), nullptr);
}

// The smallest table: most pieces meet in one place.
TEST(PieceCache, pieces_of_all_lengths_are_never_taken_for_others) {
  PieceCache cache(0);
  std::mt19937 random(1);
  std::string text;
  for (int i = 0; i < 1000; ++i) text += static_cast<char>('a' + random() % 2);
  int hits = 0;
  for (int round = 0; round < 5000; ++round) {
    const std::size_t length = 1 + random() % (round % 2 == 0 ? PieceCache::kLongestPiece : 4);
    const std::size_t at = random() % (text.size() - length);
    const std::string_view piece = std::string_view(text).substr(at, length);
    if (const auto* known = cache.find(piece)) {
      ++hits;
      ASSERT_EQ(text.substr(known->begin, known->count), piece);
    }
    cache.insert(piece, at, length);
  }
  EXPECT_GT(hits, 100);
}

}  // namespace
}  // namespace prenorm
