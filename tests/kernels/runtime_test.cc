#include "prenorm/kernels/runtime.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

#include "prenorm/base/error.h"

namespace prenorm {
namespace {

TEST(Runtime, takes_the_threads_it_is_given) {
  for (const int threads : {1, 2, 3, 8}) {
    EXPECT_EQ(Runtime({.threads = threads, .isa = "auto"}).threads(), threads);
  }
  EXPECT_EQ(Runtime().threads(), available_threads());
}

TEST(Runtime, refuses_thread_counts_out_of_range) {
  EXPECT_THROW(Runtime({.threads = -1, .isa = "auto"}), ConfigError);
  EXPECT_THROW(Runtime({.threads = 1025, .isa = "auto"}), ConfigError);
}

TEST(Runtime, runs_on_the_asked_isa) {
  EXPECT_EQ(Runtime().isa(), best_isa());
  for (const Isa isa : supported_isas()) {
    EXPECT_EQ(Runtime({.threads = 1, .isa = isa_name(isa)}).isa(), isa);
  }
  EXPECT_THROW(Runtime({.threads = 1, .isa = "sse9"}), UnsupportedCpu);
}

TEST(Runtime, grows_scratch_once_and_keeps_it) {
  const Runtime run({.threads = 2, .isa = "auto"});
  float* first = run.shared_scratch(1000);
  ASSERT_NE(first, nullptr);
  first[999] = 1.0f;
  const std::size_t bytes = run.scratch_bytes();
  EXPECT_GE(bytes, 4000u);
  EXPECT_EQ(run.shared_scratch(500), first);
  EXPECT_EQ(run.shared_scratch(1000), first);
  EXPECT_EQ(run.scratch_bytes(), bytes);
  float* more = run.shared_scratch(1000000);
  more[999999] = 1.0f;
  EXPECT_GE(run.scratch_bytes(), 4000000u);
}

TEST(Runtime, gives_each_worker_scratch_of_its_own) {
  const Runtime run({.threads = 3, .isa = "auto"});
  run.reserve_worker_scratch(2000);
  for (int a = 0; a < 3; ++a) {
    std::fill_n(run.worker_scratch(a), 2000, static_cast<float>(a));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(run.worker_scratch(a)) % 64, 0u);
  }
  for (int a = 0; a < 3; ++a) {
    EXPECT_EQ(run.worker_scratch(a)[0], static_cast<float>(a));
    EXPECT_EQ(run.worker_scratch(a)[1999], static_cast<float>(a));
  }
  const std::size_t bytes = run.scratch_bytes();
  run.reserve_worker_scratch(100);
  EXPECT_EQ(run.scratch_bytes(), bytes);
}

}  // namespace
}  // namespace prenorm
