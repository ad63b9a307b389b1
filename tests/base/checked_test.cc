#include "prenorm/base/checked.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace prenorm {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();

TEST(CheckedAdd, gives_the_sum_or_nothing) {
  EXPECT_EQ(checked_add<std::int64_t>(2, 3), 5);
  EXPECT_EQ(checked_add(kMost, std::int64_t{0}), kMost);
  EXPECT_EQ(checked_add(kMost, std::int64_t{1}), std::nullopt);
  EXPECT_EQ(checked_add(kLeast, std::int64_t{-1}), std::nullopt);
  EXPECT_EQ(checked_add<std::uint8_t>(200, 56), std::nullopt);
  EXPECT_EQ(checked_add<std::uint8_t>(200, 55), 255);
}

TEST(CheckedMul, gives_the_product_or_nothing) {
  EXPECT_EQ(checked_mul<std::int64_t>(-4, 5), -20);
  EXPECT_EQ(checked_mul(kMost, std::int64_t{1}), kMost);
  EXPECT_EQ(checked_mul(kMost, std::int64_t{2}), std::nullopt);
  EXPECT_EQ(checked_mul(kLeast, std::int64_t{-1}), std::nullopt);
  EXPECT_EQ(checked_mul(std::uint64_t{1} << 32, std::uint64_t{1} << 32), std::nullopt);
  EXPECT_EQ(checked_mul(std::uint64_t{1} << 32, std::uint64_t{1} << 31), std::uint64_t{1} << 63);
  EXPECT_EQ(checked_mul(kMost, std::int64_t{0}), 0);
}

TEST(CheckedCast, gives_the_value_where_it_fits) {
  EXPECT_EQ((checked_cast<std::int32_t, std::int64_t>(-7)), -7);
  EXPECT_EQ((checked_cast<std::int32_t, std::int64_t>(std::int64_t{1} << 31)), std::nullopt);
  EXPECT_EQ((checked_cast<std::uint64_t, std::int64_t>(-1)), std::nullopt);
  EXPECT_EQ((checked_cast<std::int64_t, std::uint64_t>(std::uint64_t{1} << 63)), std::nullopt);
  EXPECT_EQ((checked_cast<std::uint8_t, int>(255)), 255);
}

TEST(Checked, works_at_compile_time) {
  static_assert(checked_mul(6, 7) == 42);
  static_assert(!checked_add(std::numeric_limits<int>::max(), 1).has_value());
}

}  // namespace
}  // namespace prenorm
