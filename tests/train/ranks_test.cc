#include "prenorm/train/ranks.h"

#include <gtest/gtest.h>

#include <mutex>
#include <vector>

#include "prenorm/train/parameter_chunks.h"
#include "tests/train/local_ranks.h"

namespace prenorm {
namespace {

using testing_support::in_ranks;

TEST(Ranks, every_rank_gets_the_numbers_of_all_in_the_order_of_the_ranks) {
  for (int size = 1; size <= 9; ++size) {
    // Rank r has r % 4 numbers: some have none.
    std::vector<double> expected;
    std::vector<std::size_t> counts;
    for (int r = 0; r < size; ++r) {
      counts.push_back(static_cast<std::size_t>(r % 4));
      for (int i = 0; i < r % 4; ++i) expected.push_back(10 * r + i);
    }
    in_ranks(size, [&](Ranks& ranks) {
      std::vector<double> own;
      for (int i = 0; i < ranks.rank() % 4; ++i) own.push_back(10 * ranks.rank() + i);
      EXPECT_EQ(exchange(ranks, own, counts), expected) << size;
    });
  }
}

TEST(Ranks, what_is_so_on_one_is_so_on_all) {
  for (int size : {1, 2, 3, 5}) {
    in_ranks(size, [&](Ranks& ranks) {
      EXPECT_FALSE(any(ranks, false));
      for (int one = 0; one < size; ++one) EXPECT_TRUE(any(ranks, ranks.rank() == one));
      EXPECT_FALSE(any(ranks, false));
    });
  }
}

TEST(Ranks, parts_are_shared_around_and_gathered_at_the_first) {
  ParameterRegistry registry;
  registry.add("a", {300, 1000});
  registry.add("b", {7});
  registry.allocate(true);
  const std::size_t total = registry.values().size();
  std::vector<float> all(total);
  for (std::size_t i = 0; i < total; ++i) all[i] = static_cast<float>(i % 9973);
  for (int size : {1, 2, 3, 5, 8}) {
    in_ranks(size, [&](Ranks& ranks) {
      const ParameterChunks parts(registry, size);
      std::vector<float> mine(total, -1.0f);
      const std::size_t begin = parts.begin(ranks.rank()), count = parts.size(ranks.rank());
      std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(begin), count,
                  mine.begin() + static_cast<std::ptrdiff_t>(begin));
      std::vector<float> gathered = mine;
      share_parts(ranks, mine, parts);
      EXPECT_EQ(mine, all) << size;
      const std::span<float> whole = gathered;
      gather_parts(ranks, ranks.rank() == 0 ? whole : whole.subspan(begin, count), parts);
      if (ranks.rank() == 0) {
        EXPECT_EQ(gathered, all) << size;
      }
    });
  }
}

}  // namespace
}  // namespace prenorm
