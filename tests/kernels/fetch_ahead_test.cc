#include "prenorm/kernels/fetch_ahead.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <set>
#include <vector>

namespace prenorm::kernels {
namespace {

using Lines = std::vector<std::uintptr_t>;

std::uintptr_t line_of(const float* x) { return reinterpret_cast<std::uintptr_t>(x) / 64 * 64; }

// The lines of a matrix, found one float after another.
void add_lines(const float* from, Index row, Index rows, Index columns,
               std::set<std::uintptr_t>& lines) {
  for (Index i = 0; i < rows; ++i) {
    for (Index j = 0; j < columns; ++j) lines.insert(line_of(from + i * row + j));
  }
}

Lines taken(FetchAhead& ahead, int calls) {
  Lines lines;
  for (int i = 0; i < calls; ++i) {
    ahead.take_share([&](std::uintptr_t line) { lines.push_back(line); });
  }
  return lines;
}

class FetchAheadLines : public testing::Test {
 protected:
  alignas(64) std::array<float, 8192> memory_{};
};

TEST_F(FetchAheadLines, each_line_of_each_row_is_fetched_once) {
  const float* a = memory_.data() + 5;
  const float* b = memory_.data() + 4096;
  FetchAhead ahead;
  ahead.add(a, 101, 7, 48);  // rows begin anywhere in a line
  ahead.add(b, 64, 9, 16);
  ahead.spread_over(10);
  std::set<std::uintptr_t> expected;
  add_lines(a, 101, 7, 48, expected);
  add_lines(b, 64, 9, 16, expected);
  const Lines lines = taken(ahead, 10);
  EXPECT_EQ(std::set<std::uintptr_t>(lines.begin(), lines.end()), expected);
  EXPECT_EQ(lines.size(), expected.size());
  EXPECT_TRUE(taken(ahead, 5).empty()) << "all has been fetched";
}

TEST_F(FetchAheadLines, the_calls_have_equal_shares) {
  FetchAhead ahead;
  ahead.add(memory_.data(), 256, 32, 16);
  ahead.spread_over(16);
  const std::size_t share = taken(ahead, 1).size();
  EXPECT_GE(share, 2U);
  EXPECT_LE(share, 4U) << "lines that rows may straddle are counted";
  EXPECT_EQ(taken(ahead, 1).size(), share);
}

TEST_F(FetchAheadLines, where_there_is_nothing_nothing_is_fetched) {
  FetchAhead none;
  none.spread_over(0);
  EXPECT_TRUE(taken(none, 3).empty());
  FetchAhead empty;
  empty.add(memory_.data(), 64, 0, 16);
  empty.add(memory_.data(), 64, 4, 0);
  empty.add(nullptr, 0, -1, 16);
  empty.spread_over(4);
  EXPECT_TRUE(taken(empty, 4).empty());
  empty.fetch();
}

}  // namespace
}  // namespace prenorm::kernels
