#include "prenorm/layers/layer_benchmark.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace prenorm {
namespace {

TEST(LayerBenchmark, every_part_is_timed_with_what_it_moves_or_computes) {
  const auto times = time_layers(Runtime(), 0.0);
  ASSERT_EQ(times.size(), 22u);
  for (const LayerTime& time : times) {
    EXPECT_GT(time.seconds, 0.0) << time.name;
    EXPECT_LT(time.seconds, 60.0) << time.name;
    EXPECT_GT(time.bytes, 0.0) << time.name;
  }
  const auto block = std::ranges::find_if(times, [](const LayerTime& time) {
    return time.name == "block, evaluation" && time.x == std::vector<Index>{1, 128, 768};
  });
  ASSERT_NE(block, times.end());
  EXPECT_EQ(block->flops, 24.0 * 768 * 768 * 128 + 2.0 * 128 * 128 * 768);
}

}  // namespace
}  // namespace prenorm
