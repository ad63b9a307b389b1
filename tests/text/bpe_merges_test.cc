#include "prenorm/text/bpe_merges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>

namespace prenorm {
namespace {

using ::testing::ElementsAre;

std::vector<TokenId> merged(const BpeMerges& merges, std::vector<TokenId> symbols) {
  BpeMerger merger(merges);
  merger.merge(symbols);
  return symbols;
}

TEST(BpeMerges, a_pair_is_found_with_its_rank_and_what_it_makes) {
  const BpeMerges merges(std::vector<BpeMerge>{{1, 2, 10}, {2, 1, 11}, {10, 10, 12}});
  EXPECT_EQ(merges.find(1, 2).rank, 0u);
  EXPECT_EQ(merges.find(2, 1).result, 11);
  EXPECT_EQ(merges.find(10, 10).rank, 2u);
  EXPECT_EQ(merges.find(2, 2).rank, BpeMerges::kNone);
  EXPECT_EQ(BpeMerges().find(0, 0).rank, BpeMerges::kNone);
}

TEST(BpeMerges, of_a_pair_that_is_there_twice_the_last_counts) {
  const BpeMerges merges(std::vector<BpeMerge>{{1, 2, 10}, {2, 3, 11}, {1, 2, 10}});
  EXPECT_EQ(merges.find(1, 2).rank, 2u);
  EXPECT_THAT(merged(merges, {1, 2, 3}), ElementsAre(1, 11));
}

TEST(BpeMerges, the_lowest_rank_comes_first_and_of_equal_ones_the_leftmost) {
  const BpeMerges merges(std::vector<BpeMerge>{{2, 3, 10}, {1, 2, 11}, {1, 1, 12}});
  EXPECT_THAT(merged(merges, {1, 2, 3}), ElementsAre(1, 10));
  EXPECT_THAT(merged(merges, {1, 1, 1}), ElementsAre(12, 1));
  EXPECT_THAT(merged(merges, {1, 1, 2, 3, 1, 2}), ElementsAre(12, 10, 11));
  EXPECT_THAT(merged(merges, {}), ElementsAre());
  EXPECT_THAT(merged(merges, {1}), ElementsAre(1));
}

// One merge at a time, looked for from the beginning.
std::vector<TokenId> textbook(const std::vector<BpeMerge>& merges, std::vector<TokenId> symbols) {
  std::map<std::pair<TokenId, TokenId>, std::size_t> ranks;
  for (std::size_t i = 0; i < merges.size(); ++i) ranks[{merges[i].left, merges[i].right}] = i;
  while (true) {
    std::size_t best = merges.size(), where = 0;
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto it = ranks.find({symbols[i], symbols[i + 1]});
      if (it == ranks.end() || it->second >= best) continue;
      best = it->second;
      where = i;
    }
    if (best == merges.size()) return symbols;
    symbols[where] = merges[best].result;
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(where) + 1);
  }
}

// Merges over the letters 0 to 3 in an order that no training would give.
std::vector<BpeMerge> random_merges(std::mt19937& random, TokenId count) {
  std::vector<BpeMerge> merges;
  for (TokenId id = 4; id < 4 + count; ++id) {
    const auto any = [&] { return static_cast<TokenId>(random() % static_cast<unsigned>(id)); };
    merges.push_back({any(), any(), id});
  }
  std::ranges::shuffle(merges, random);
  return merges;
}

TEST(BpeMerges, short_and_long_pieces_merge_as_the_textbook_says) {
  std::mt19937 random(1);
  for (int round = 0; round < 400; ++round) {
    const std::vector<BpeMerge> merges = random_merges(random, 1 + round % 30);
    const BpeMerges table(merges);
    const std::size_t length = round % 4 == 0 ? 90 + random() % 200 : random() % 40;
    std::vector<TokenId> symbols(length);
    for (TokenId& symbol : symbols) symbol = static_cast<TokenId>(random() % 4);
    ASSERT_EQ(merged(table, symbols), textbook(merges, symbols)) << "round " << round;
  }
}

// Quadratic merging would take hours.
TEST(BpeMerges, a_million_equal_symbols_merge_at_once) {
  std::vector<BpeMerge> merges;
  for (TokenId id = 0; id < 6; ++id) merges.push_back({id, id, id + 1});
  const std::vector<TokenId> out =
      merged(BpeMerges(merges), std::vector<TokenId>(1'000'000, TokenId{0}));
  EXPECT_EQ(out, std::vector<TokenId>(1'000'000 / 64, TokenId{6}));
}

}  // namespace
}  // namespace prenorm
