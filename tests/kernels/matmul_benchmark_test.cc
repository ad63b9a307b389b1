#include "prenorm/kernels/matmul_benchmark.h"

#include "tests/kernels/kernel_test_util.h"

namespace prenorm::kernels {
namespace {

TEST(MatmulBenchmark, times_all_three_products_and_counts_their_operations) {
  const MatmulTimes times = time_matmul(Runtime(), 24, 32, 40, 0.001);
  EXPECT_EQ(times.flops, 2.0 * 24 * 32 * 40);
  EXPECT_GT(times.forward, 0.0);
  EXPECT_GT(times.dx, 0.0);
  EXPECT_GT(times.dweight, 0.0);
}

}  // namespace
}  // namespace prenorm::kernels
