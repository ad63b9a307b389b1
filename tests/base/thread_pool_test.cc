#include "prenorm/base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <vector>

namespace prenorm {
namespace {

using std::chrono::steady_clock;

class EveryThreadCount : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(ThreadPool, EveryThreadCount, testing::Values(1, 2, 3, 8));

TEST_P(EveryThreadCount, runs_every_piece_once) {
  ThreadPool pool(GetParam());
  EXPECT_EQ(pool.threads(), GetParam());
  for (const Index pieces : {0, 1, 2, 3, 7, 64, 1000}) {
    std::vector<std::atomic<int>> runs(static_cast<std::size_t>(pieces));
    pool.run(pieces, [&](Index piece, int) { ++runs[static_cast<std::size_t>(piece)]; });
    for (const auto& count : runs) EXPECT_EQ(count.load(), 1);
  }
}

TEST_P(EveryThreadCount, has_no_piece_left_when_it_returns) {
  ThreadPool pool(GetParam());
  // Plain ints: what the pieces wrote must be visible to the caller without further ado.
  std::vector<int> values(100);
  for (int loop = 1; loop <= 200; ++loop) {
    pool.run(100, [&](Index piece, int) { values[static_cast<std::size_t>(piece)] += loop; });
    for (const int value : values) ASSERT_EQ(value, loop * (loop + 1) / 2);
  }
}

TEST_P(EveryThreadCount, gives_no_worker_two_pieces_at_a_time) {
  ThreadPool pool(GetParam());
  std::vector<std::atomic<int>> busy(static_cast<std::size_t>(GetParam()));
  std::atomic<int> clashes = 0;
  for (int loop = 0; loop < 100; ++loop) {
    pool.run(50, [&](Index, int worker) {
      auto& mine = busy.at(static_cast<std::size_t>(worker));
      if (mine.fetch_add(1) != 0) ++clashes;
      mine.fetch_sub(1);
    });
  }
  EXPECT_EQ(clashes.load(), 0);
}

TEST_P(EveryThreadCount, survives_thousands_of_tiny_loops) {
  ThreadPool pool(GetParam());
  std::atomic<std::int64_t> sum = 0;
  const int loops = 4000;
  for (int loop = 0; loop < loops; ++loop) {
    pool.run(1 + loop % 5, [&](Index piece, int) { sum += piece; });
  }
  EXPECT_EQ(sum.load(), loops / 5 * (0 + 1 + 3 + 6 + 10));
}

TEST_P(EveryThreadCount, wakes_workers_that_have_gone_to_sleep) {
  ThreadPool pool(GetParam());
  for (int loop = 0; loop < 30; ++loop) {
    std::this_thread::sleep_for(std::chrono::microseconds(loop * 20));
    std::atomic<int> runs = 0;
    pool.run(8, [&](Index, int) { ++runs; });
    ASSERT_EQ(runs.load(), 8);
  }
}

TEST_P(EveryThreadCount, can_be_made_and_destroyed_at_once) {
  for (int i = 0; i < 50; ++i) {
    ThreadPool pool(GetParam());
    if (i % 2 == 0) pool.run(3, [](Index, int) {});
  }
}

TEST(ThreadPool, lets_workers_share_the_work) {
  ThreadPool pool(2);
  std::atomic<int> arrived = 0;
  const auto give_up = steady_clock::now() + std::chrono::seconds(20);
  // Each piece waits for the other, so one thread alone could not finish.
  pool.run(2, [&](Index, int) {
    ++arrived;
    while (arrived.load() < 2 && steady_clock::now() < give_up) std::this_thread::yield();
  });
  EXPECT_LT(steady_clock::now(), give_up);
}

TEST(ThreadPool, each_worker_begins_with_a_share_of_its_own_where_the_last_loop_had_it) {
  ThreadPool pool(4);
  for (int loop = 0; loop < 20; ++loop) {
    std::vector<int> worker_of(40, -1);
    std::atomic<int> begun = 0;
    const auto give_up = steady_clock::now() + std::chrono::seconds(20);
    // The first piece of each share waits until all workers have one.
    pool.run(40, [&](Index piece, int worker) {
      worker_of[static_cast<std::size_t>(piece)] = worker;
      if (piece % 10 != 0) return;
      ++begun;
      while (begun.load() < 4 && steady_clock::now() < give_up) std::this_thread::yield();
    });
    ASSERT_LT(steady_clock::now(), give_up);
    for (int share = 0; share < 4; ++share) {
      EXPECT_EQ(ThreadPool::share_begin(40, share, 4), 10 * share);
      EXPECT_EQ(worker_of[static_cast<std::size_t>(10 * share)], share);
    }
  }
}

TEST(ThreadPool, a_slow_piece_does_not_hold_the_others_up) {
  ThreadPool pool(2);
  std::atomic<int> others = 0;
  const auto give_up = steady_clock::now() + std::chrono::seconds(20);
  // The first piece waits until all others are done, which only the other thread can do.
  pool.run(100, [&](Index piece, int) {
    if (piece != 0) {
      ++others;
      return;
    }
    while (others.load() < 99 && steady_clock::now() < give_up) std::this_thread::yield();
  });
  EXPECT_EQ(others.load(), 99);
  EXPECT_LT(steady_clock::now(), give_up);
}

TEST(ThreadPool, serves_callers_from_several_threads_one_after_the_other) {
  ThreadPool pool(3);
  std::atomic<int> runs = 0;
  for (int i = 0; i < 10; ++i) {
    std::thread([&] { pool.run(10, [&](Index, int) { ++runs; }); }).join();
  }
  EXPECT_EQ(runs.load(), 100);
}

TEST(AvailableThreads, is_at_least_one_and_at_most_the_machine) {
  EXPECT_GE(available_threads(), 1);
  const unsigned machine = std::thread::hardware_concurrency();
  if (machine != 0) {
    EXPECT_LE(available_threads(), static_cast<int>(machine));
  }
}

}  // namespace
}  // namespace prenorm
