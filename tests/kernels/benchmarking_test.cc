#include "prenorm/kernels/benchmarking.h"

#include <gtest/gtest.h>

namespace prenorm::kernels {
namespace {

TEST(Benchmarking, numbers_have_both_signs_and_are_at_most_one) {
  const BenchmarkMatrix matrix(20, 60);
  ASSERT_EQ(matrix.flat().size(), 1200u);
  const auto [least, most] = std::ranges::minmax(matrix.flat());
  EXPECT_EQ(least, -1.0f);
  EXPECT_EQ(most, 1.0f);
}

TEST(Benchmarking, calls_once_to_warm_up_and_at_least_three_times) {
  int calls = 0;
  EXPECT_GE(best_of(0.0, [&] { ++calls; }), 0.0);
  EXPECT_EQ(calls, 4);
}

}  // namespace
}  // namespace prenorm::kernels
