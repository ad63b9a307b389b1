#include "prenorm/cli/interrupt.h"

#include <gtest/gtest.h>

#include <csignal>

namespace prenorm::cli {
namespace {

TEST(Interrupt, the_first_signal_is_remembered_with_its_exit_code) {
  for (const auto& [signal, code] :
       {std::pair(SIGINT, 130), std::pair(SIGTERM, 143), std::pair(SIGHUP, 129)}) {
    const InterruptGuard guard;
    EXPECT_FALSE(guard.requested());
    EXPECT_EQ(guard.exit_code(), 0);
    std::raise(signal);
    EXPECT_TRUE(guard.requested());
    EXPECT_EQ(guard.exit_code(), code);
  }
}

TEST(InterruptDeath, the_second_signal_ends_the_process_at_once) {
  EXPECT_EXIT(
      {
        const InterruptGuard guard;
        std::raise(SIGINT);
        std::raise(SIGINT);
      },
      testing::ExitedWithCode(130), "");
}

TEST(Interrupt, a_signal_that_is_ignored_stays_ignored) {
  for (const int signal : {SIGINT, SIGHUP}) {  // SIGHUP: by nohup
    std::signal(signal, SIG_IGN);
    {
      const InterruptGuard guard;
      std::raise(signal);
      EXPECT_FALSE(guard.requested());
    }
    EXPECT_EQ(std::signal(signal, SIG_DFL), SIG_IGN);
  }
}

TEST(SaveSignalTest, a_signal_asks_for_one_save_and_ends_nothing) {
  SaveSignal save;
  EXPECT_FALSE(save.take());
  std::raise(SIGUSR1);
  std::raise(SIGUSR1);
  EXPECT_TRUE(save.take());
  EXPECT_FALSE(save.take());
}

TEST(InterruptDeath, afterwards_a_signal_ends_the_process_as_before) {
  EXPECT_EXIT(
      {
        { const InterruptGuard guard; }
        std::raise(SIGTERM);
      },
      testing::KilledBySignal(SIGTERM), "");
}

}  // namespace
}  // namespace prenorm::cli
