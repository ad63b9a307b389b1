#include "prenorm/kernels/profile.h"

#include <gtest/gtest.h>

#include "prenorm/kernels/matmul.h"
#include "tests/kernels/kernel_test_util.h"

namespace prenorm {
namespace {

TEST(Profile, counts_the_time_and_the_arithmetic_of_each_kernel) {
  const Runtime run;
  Profile profile;
  const TestMatrix a(3, 5), b(5, 7);
  TestMatrix c(3, 7);
  kernels::matmul(run, a.view(), kernels::Right::plain(b.view()), c.view(), {});
  run.set_profile(&profile);
  for (int i = 0; i < 2; ++i) {
    kernels::matmul(run, a.view(), kernels::Right::plain(b.view()), c.view(), {});
  }
  run.set_profile(nullptr);
  kernels::matmul(run, a.view(), kernels::Right::plain(b.view()), c.view(), {});
  EXPECT_EQ(profile[Part::kMatmul].flops, 2 * 2.0 * 3 * 5 * 7);
  EXPECT_GT(profile[Part::kMatmul].seconds, 0.0);
  EXPECT_EQ(profile[Part::kNorm].seconds, 0.0);
  EXPECT_EQ(profile.seconds(), profile[Part::kMatmul].seconds);
}

TEST(Profile, the_outer_of_two_parts_counts) {
  const Runtime run;
  Profile profile;
  run.set_profile(&profile);
  {
    const ProfileScope head(run, Part::kHead, 10.0, 20.0);
    const ProfileScope inner(run, Part::kMatmul, 1.0, 2.0);
  }
  { const ProfileScope later(run, Part::kMatmul, 4.0, 8.0); }
  run.set_profile(nullptr);
  EXPECT_EQ(profile[Part::kHead].flops, 10.0);
  EXPECT_EQ(profile[Part::kHead].bytes, 20.0);
  EXPECT_EQ(profile[Part::kMatmul].flops, 4.0);
}

}  // namespace
}  // namespace prenorm
