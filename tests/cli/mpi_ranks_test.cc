#include "prenorm/cli/mpi_ranks.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <numeric>
#include <vector>

#include "tests/cli/fake_mpi.h"

namespace prenorm::cli {
namespace {

using fake_mpi::in_ranks;

std::vector<int> numbers(int first, int count) {
  std::vector<int> out(static_cast<std::size_t>(count));
  std::iota(out.begin(), out.end(), first);
  return out;
}

TEST(MpiRanks, messages_of_a_tag_arrive_in_order_and_tags_do_not_mix) {
  in_ranks(3, {}, [](MpiRanks& ranks) {
    const int after = (ranks.rank() + 1) % 3, before = (ranks.rank() + 2) % 3;
    std::vector<std::vector<int>> out, in;
    std::vector<Ranks::Request> requests;
    for (int i = 0; i < 6; ++i) in.emplace_back(static_cast<std::size_t>(10 + i));
    // Receives of tag 1 are posted after those of tag 2; sends the other way round.
    for (int i : {1, 3, 5, 0, 2, 4}) {
      requests.push_back(
          ranks.receive(message_of(std::span(in[static_cast<std::size_t>(i)])), before, 1 + i % 2));
    }
    for (int i = 0; i < 6; ++i) out.push_back(numbers(100 * ranks.rank() + i, 10 + i));
    for (int i = 0; i < 6; ++i) {
      requests.push_back(
          ranks.send(message_of(std::span(out[static_cast<std::size_t>(i)])), after, 1 + i % 2));
    }
    for (const auto request : requests) ranks.wait(request);
    for (const auto request : requests) EXPECT_TRUE(ranks.done(request));
    for (int i = 0; i < 6; ++i) {
      EXPECT_EQ(in[static_cast<std::size_t>(i)], numbers(100 * before + i, 10 + i));
    }
  });
  EXPECT_EQ(fake_mpi::world.stopped, 3) << "each rank has ended MPI";
}

TEST(MpiRanks, a_message_that_nobody_has_sent_is_not_done) {
  std::atomic<bool> looked = false;
  in_ranks(2, {}, [&](MpiRanks& ranks) {
    int number = 7;
    const auto message = message_of(std::span(&number, 1));
    if (ranks.rank() == 0) {
      const auto request = ranks.receive(message, 1, 5);
      EXPECT_FALSE(ranks.done(request));
      looked = true;
      ranks.wait(request);
      EXPECT_TRUE(ranks.done(request));
    } else {
      while (!looked) std::this_thread::yield();
      ranks.wait(ranks.send(message, 0, 5));
    }
  });
}

TEST(MpiRanks, no_bytes_are_a_message_too) {
  in_ranks(2, {}, [](MpiRanks& ranks) {
    const int other = 1 - ranks.rank();
    const auto arriving = ranks.receive({}, other, 1);
    ranks.wait(ranks.send({}, other, 1));
    ranks.wait(arriving);
  });
}

void print(const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); }

TEST(MpiRanksDeathTest, a_rank_that_keeps_the_others_waiting_is_named_and_all_end) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto stall = [] {
    in_ranks(3, {.timeout_seconds = 0.3, .on_stall = print}, [](MpiRanks& ranks) {
      ranks.at_step(10 + ranks.rank());
      int number = 0;
      // Rank 0 waits for 1, and 1 for 2, which is elsewhere.
      if (ranks.rank() == 2) std::this_thread::sleep_for(std::chrono::seconds(30));
      ranks.wait(ranks.receive(message_of(std::span(&number, 1)), ranks.rank() + 1, 1));
    });
  };
  EXPECT_EXIT(stall(), ::testing::ExitedWithCode(3),
              "rank 2: expected its part of step 1[01] within 0.3 s .--rank-timeout., found it "
              "still at work in step 12");
}

TEST(MpiRanksDeathTest, a_failure_ends_all_with_its_code) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto fail = [] {
    in_ranks(2, {}, [](MpiRanks& ranks) {
      int number = 0;
      if (ranks.rank() == 1) ranks.abort(4);
      ranks.wait(ranks.receive(message_of(std::span(&number, 1)), 1, 1));
    });
  };
  EXPECT_EXIT(fail(), ::testing::ExitedWithCode(4), "");
}

}  // namespace
}  // namespace prenorm::cli
