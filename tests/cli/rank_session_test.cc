#include "prenorm/cli/rank_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <string>

#include "prenorm/base/error.h"
#include "tests/cli/fake_mpi.h"

namespace prenorm::cli {
namespace {

using Variables = std::map<std::string, std::string>;

std::optional<int> launched(const Variables& variables) {
  return launched_ranks([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(RankSession, the_launchers_variables_say_how_many_there_are) {
  EXPECT_EQ(launched({}), std::nullopt);
  EXPECT_EQ(launched({{"OMPI_COMM_WORLD_SIZE", "4"}}), 4);
  EXPECT_EQ(launched({{"PMI_SIZE", "3"}, {"PMI_RANK", "0"}}), 3);
  EXPECT_EQ(launched({{"PMIX_RANK", "1"}, {"SLURM_STEP_NUM_TASKS", "16"}}), 16);
  EXPECT_EQ(launched({{"SLURM_STEP_NUM_TASKS", "16"}}), std::nullopt) << "a shell inside a job";
  EXPECT_EQ(launched({{"OMPI_COMM_WORLD_SIZE", ""}}), std::nullopt);
}

TEST(RankSession, ranks_on_the_same_cores_share_them) {
  EXPECT_EQ(threads_for_rank(1, 1), 1);
  EXPECT_EQ(threads_for_rank(64, 2), 32);
  EXPECT_EQ(threads_for_rank(7, 2), 3);
  EXPECT_EQ(threads_for_rank(2, 4), 1);
}

template <typename Function>
void in_sessions(int size, const Function& function) {
  fake_mpi::world.size = size;
  fake_mpi::world.started = 0;
  std::vector<std::thread> threads;
  for (int r = 0; r < size; ++r) {
    threads.emplace_back([&] {
      RankSession session(fake_mpi::kFunctions, 30);
      function(session);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(RankSession, threads_are_shared_fairly_by_the_ranks_of_this_machine) {
  const int cores = available_threads();
  in_sessions(3,
              [&](RankSession& session) { EXPECT_EQ(session.threads(), std::max(1, cores / 3)); });
}

TEST(RankSession, what_fails_on_one_rank_fails_on_all_and_one_says_why) {
  std::atomic<int> ended = 0, passed = 0;
  testing::internal::CaptureStderr();
  in_sessions(4, [&](RankSession& session) {
    session.together([] {});
    ++passed;
    try {
      session.together([&] {
        if (session.ranks().rank() >= 2) throw DataError("the text");
      });
    } catch (const RankSession::Ended& end) {
      EXPECT_EQ(end.code, kBadInput);
      ++ended;
    }
  });
  EXPECT_EQ(passed, 4);
  EXPECT_EQ(ended, 4);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "prenorm: rank 2: the text\n");
}

TEST(RankSession, numbers_that_stop_being_finite_are_told_once) {
  std::atomic<int> ended = 0;
  testing::internal::CaptureStderr();
  in_sessions(3, [&](RankSession& session) {
    try {
      session.until_the_end([] { throw NumericalError("training"); });
    } catch (const RankSession::Ended& end) {
      EXPECT_EQ(end.code, kNumerical);
      ++ended;
    }
  });
  EXPECT_EQ(ended, 3);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "prenorm: training\n");
}

TEST(RankSessionDeathTest, another_failure_of_a_rank_is_told_with_its_name_and_ends_all) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto fail = [] {
    in_sessions(3, [](RankSession& session) {
      session.until_the_end([&] {
        if (session.ranks().rank() == 1) throw IoError("text.txt: expected it, found none");
        int number = 0;
        session.ranks().wait(session.ranks().receive(message_of(std::span(&number, 1)), 1, 1));
      });
    });
  };
  EXPECT_EXIT(fail(), ::testing::ExitedWithCode(kBadInput),
              "prenorm: rank 1: text.txt: expected it, found none");
}

TEST(RankSession, the_largest_exit_code_is_that_of_all) {
  in_sessions(3, [](RankSession& session) {
    EXPECT_EQ(session.largest(session.ranks().rank() == 1 ? 143 : 0), 143);
  });
}

}  // namespace
}  // namespace prenorm::cli
