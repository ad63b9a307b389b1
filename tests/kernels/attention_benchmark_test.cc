#include "prenorm/kernels/attention_benchmark.h"

#include "tests/kernels/kernel_test_util.h"

namespace prenorm::kernels {
namespace {

AttentionTimes of_length(Index time) {
  AttentionShape shape;
  shape.batch = 2;
  shape.time = time;
  shape.heads = 3;
  shape.head_width = 8;
  shape.scale = 0.35;
  return time_attention(shape, Runtime({.threads = 1}), 0.001);
}

TEST(AttentionBenchmark, times_both_passes_and_counts_the_products_of_keys_that_are_seen) {
  const AttentionTimes times = of_length(16);
  EXPECT_EQ(times.forward_flops, 2.0 * 2 * 16 * 16 * 24);
  EXPECT_EQ(times.backward_flops, 5.0 * 2 * 16 * 16 * 24);
  EXPECT_GT(times.forward, 0.0);
  EXPECT_GT(times.backward, 0.0);
}

TEST(AttentionBenchmark, memory_grows_with_the_length_and_not_with_its_square) {
  const auto bytes = [](Index time) { return static_cast<double>(of_length(time).scratch_bytes); };
  EXPECT_LT(bytes(2048), 2.2 * bytes(1024));
}

}  // namespace
}  // namespace prenorm::kernels
