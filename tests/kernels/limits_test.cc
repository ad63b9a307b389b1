#include "prenorm/kernels/limits.h"

#include "tests/kernels/kernel_test_util.h"

namespace prenorm::kernels {
namespace {

// No CPU of this century is outside these, so a slip in the units or in the count is seen.
TEST(Limits, the_multiply_add_peak_is_that_of_a_real_machine) {
  on_every_runtime([](const Runtime& run) {
    const double gflops = measure_fma_peak(run, 0.01);
    EXPECT_GT(gflops, 0.5);
    EXPECT_LT(gflops, 500.0 * run.threads());
  });
}

TEST(Limits, the_read_bandwidth_is_that_of_a_real_machine) {
  const double gigabytes = measure_read_bandwidth(Runtime(), std::size_t{64} << 20);
  EXPECT_GT(gigabytes, 0.1);
  EXPECT_LT(gigabytes, 5000.0);
}

TEST(Limits, handing_over_takes_time_where_there_is_somebody_to_hand_over_to) {
  EXPECT_EQ(measure_hand_over(Runtime({.threads = 1})), 0.0);
  const double microseconds = measure_hand_over(Runtime({.threads = 2}));
  EXPECT_GT(microseconds, 0.01);
  EXPECT_LT(microseconds, 1e5);
}

}  // namespace
}  // namespace prenorm::kernels
