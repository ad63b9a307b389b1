#include "prenorm/kernels/each_row.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

namespace prenorm::kernels {
namespace {

TEST(EachRow, visits_every_row_once_on_any_number_of_threads) {
  for (int threads : {1, 3}) {
    const Runtime run(Runtime::Options{threads, "auto"});
    for (Index rows : {0, 1, 100, 1001}) {
      for (Index columns : {0, 1, 300, 100000}) {
        std::vector<std::atomic<int>> visits(static_cast<std::size_t>(rows));
        each_row(
            run, rows, columns, [&](Index n) { ++visits[static_cast<std::size_t>(n)]; }, 1000);
        for (const auto& count : visits) ASSERT_EQ(count.load(), 1);
      }
    }
  }
}

TEST(EachRow, a_piece_has_at_least_one_row_and_about_as_many_elements_as_asked) {
  EXPECT_EQ(rows_of_piece(100, 1000), 10);
  EXPECT_EQ(rows_of_piece(1001, 1000), 1);
  EXPECT_EQ(rows_of_piece(0, 1000), 1000);
}

}  // namespace
}  // namespace prenorm::kernels
