#include "prenorm/study/fingerprint.h"

#include <gtest/gtest.h>

#include "tests/kernels/kernel_test_util.h"

namespace prenorm {
namespace {

TEST(Fingerprint, is_the_recorded_one_on_every_target_and_thread_count) {
  on_every_runtime([](const Runtime& run) {
    const auto found = compute_fingerprints(run);
    const auto first = first_difference(found);
    EXPECT_FALSE(first.has_value()) << "the first that differs: " << found[first.value_or(0)].name;
  });
}

TEST(Fingerprint, is_the_recorded_one_on_eight_threads) {
  const auto found = compute_fingerprints(Runtime(Runtime::Options{8, "auto"}));
  EXPECT_FALSE(first_difference(found).has_value());
}

TEST(Fingerprint, names_the_first_that_differs) {
  std::vector<Fingerprint> found(recorded_fingerprints().begin(), recorded_fingerprints().end());
  ASSERT_GE(found.size(), 20u);
  EXPECT_EQ(first_difference(found), std::nullopt);
  found[7].hash ^= 1;
  found[9].hash ^= 1;
  EXPECT_EQ(first_difference(found), std::optional<std::size_t>(7));
  found.resize(5);
  EXPECT_EQ(first_difference(found), std::optional<std::size_t>(5));
}

}  // namespace
}  // namespace prenorm
