#include "prenorm/kernels/add.h"

#include <cmath>
#include <limits>

#include "tests/kernels/kernel_test_util.h"

namespace prenorm::kernels {
namespace {

struct Shape {
  Index rows, columns;
};
// The last two are cut into several pieces: many rows, and rows longer than a piece.
const Shape kShapes[] = {{1, 1}, {3, 17}, {2000, 33}, {3, 40000}};

TEST(Add, is_one_float_addition_an_element) {
  for (const Shape& s : kShapes) {
    const TestMatrix a = TestMatrix::random(s.rows, s.columns, 1, 3);
    const TestMatrix b = TestMatrix::random(s.rows, s.columns, 2, 1, 100.0f);
    TestMatrix want(s.rows, s.columns);
    for (Index r = 0; r < s.rows; ++r) {
      for (Index c = 0; c < s.columns; ++c) want.at(r, c) = a.at(r, c) + b.at(r, c);
    }
    on_every_runtime([&](const Runtime& run) {
      TestMatrix y(s.rows, s.columns, 2);
      add(run, a.view(), b.view(), y.view());
      EXPECT_TRUE(same_bits(y, want));
      TestMatrix left = a, right = b;
      add(run, left.view(), b.view(), left.view());
      add(run, a.view(), right.view(), right.view());
      EXPECT_TRUE(same_bits(left, want));
      EXPECT_TRUE(same_bits(right, want));
    });
  }
}

TEST(Add, leaves_the_columns_between_rows_alone) {
  const TestMatrix a = TestMatrix::random(40, 5, 1), b = TestMatrix::random(40, 5, 2);
  TestMatrix y = TestMatrix::random(40, 5, 3, 4);
  const TestMatrix before = y;
  add(Runtime(), a.view(), b.view(), y.view());
  for (Index r = 0; r < 40; ++r) {
    for (Index c = 5; c < 9; ++c) EXPECT_EQ(y.at(r, c), before.at(r, c));
  }
}

TEST(Add, passes_infinities_and_nans_on_in_their_place) {
  const float inf = std::numeric_limits<float>::infinity();
  TestMatrix a = TestMatrix::random(1, 9, 1), b = TestMatrix::random(1, 9, 2), y(1, 9);
  a.at(0, 2) = inf;
  b.at(0, 4) = std::nanf("");
  a.at(0, 6) = inf;
  b.at(0, 6) = -inf;
  add(Runtime(), a.view(), b.view(), y.view());
  EXPECT_EQ(y.at(0, 2), inf);
  for (Index c = 0; c < 9; ++c) EXPECT_EQ(std::isnan(y.at(0, c)), c == 4 || c == 6) << c;
}

TEST(FillZero, writes_positive_zeros_in_the_matrix_alone) {
  for (const Shape& s : kShapes) {
    on_every_runtime([&](const Runtime& run) {
      TestMatrix y = TestMatrix::random(s.rows, s.columns, 3, 4);
      y.at(0, 0) = std::nanf("");
      const TestMatrix before = y;
      fill_zero(run, y.view());
      EXPECT_TRUE(same_bits(y, TestMatrix(s.rows, s.columns)));
      for (Index c = s.columns; c < y.stride; ++c) {
        EXPECT_EQ(y.at(s.rows - 1, c), before.at(s.rows - 1, c));
      }
    });
  }
}

TEST(FillZero, takes_a_matrix_without_rows_or_columns) {
  TestMatrix y(4, 4);
  y.at(0, 0) = 5.0f;
  fill_zero(Runtime(), Matrix(y.data.data(), {0, 4}));
  fill_zero(Runtime(), Matrix(y.data.data(), {4, 0}));
  EXPECT_EQ(y.at(0, 0), 5.0f);
}

}  // namespace
}  // namespace prenorm::kernels
