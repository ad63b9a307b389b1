#include "prenorm/study/sum_of.h"

#include <gtest/gtest.h>

namespace prenorm {
namespace {

TEST(SumOf, every_term_counts_once_whatever_their_number) {
  for (const Index n : {0, 1, 3, 4, 5, 8, 11}) {
    EXPECT_EQ(sum_of(n, [](Index i) { return static_cast<double>(i + 1); }),
              static_cast<double>(n * (n + 1) / 2));
  }
}

}  // namespace
}  // namespace prenorm
