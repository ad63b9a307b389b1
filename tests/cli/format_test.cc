#include "prenorm/cli/format.h"

#include <gtest/gtest.h>

#include <limits>

namespace prenorm::cli {
namespace {

TEST(Format, thousands_are_grouped) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1003854), "1,003,854");
  EXPECT_EQ(grouped(-1234), "-1,234");
}

TEST(Format, counts_are_short) {
  EXPECT_EQ(short_count(850), "850");
  EXPECT_EQ(short_count(8100), "8.1k");
  EXPECT_EQ(short_count(799616), "0.80M");
  EXPECT_EQ(short_count(124e6), "124M");
  EXPECT_EQ(short_count(1.5e9), "1.5G");
}

TEST(Format, arithmetic_has_its_unit) {
  EXPECT_EQ(flops_text(3.9e9), "3.9 GFLOP");
  EXPECT_EQ(flops_text(12), "12 FLOP");
}

TEST(Format, bytes_have_units_of_powers_of_a_thousand) {
  EXPECT_EQ(bytes_text(512), "512 B");
  EXPECT_EQ(bytes_text(1500), "1.5 kB");
  EXPECT_EQ(bytes_text(45'200'000), "45 MB");
  EXPECT_EQ(bytes_text(999'999), "1.0 MB");
}

TEST(Format, durations_have_the_units_they_need) {
  EXPECT_EQ(duration_text(7.2), "0:07");
  EXPECT_EQ(duration_text(760), "12:40");
  EXPECT_EQ(duration_text(3723), "1:02:03");
  EXPECT_EQ(duration_text(3 * 86400 + 3723), "3 d 1:02:03");
  EXPECT_EQ(duration_text(std::numeric_limits<double>::quiet_NaN()), "0:00");
}

TEST(Format, a_learning_rate_has_a_short_exponent) {
  EXPECT_EQ(scientific_text(6e-4), "6.0e-4");
  EXPECT_EQ(scientific_text(1e-12), "1.0e-12");
  EXPECT_EQ(scientific_text(1.0), "1.0e0");
}

}  // namespace
}  // namespace prenorm::cli
