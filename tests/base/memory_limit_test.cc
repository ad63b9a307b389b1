#include "prenorm/base/memory_limit.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace prenorm {
namespace {

TEST(MemoryLimitTest, there_is_one_and_it_is_more_than_a_megabyte) {
  const MemoryLimit limit = memory_limit();
  EXPECT_GT(limit.bytes, std::uint64_t{1} << 20);
  EXPECT_FALSE(limit.what.empty());
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(MemoryLimitTest, a_limit_of_the_address_space_leaves_what_is_not_mapped_yet) {
  // In a process of its own: what is left there is what it says, within what it maps meanwhile.
  const pid_t child = fork();
  if (child == 0) {
    constexpr rlim_t kSpace = rlim_t{1} << 30;
    const rlimit space{kSpace, kSpace};
    if (setrlimit(RLIMIT_AS, &space) != 0) _exit(1);
    const MemoryLimit limit = memory_limit();
    if (limit.bytes >= kSpace || limit.what.find("ulimit -v") == std::string_view::npos) _exit(2);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}
#endif

}  // namespace
}  // namespace prenorm
