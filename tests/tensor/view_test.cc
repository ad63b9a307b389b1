#include "prenorm/tensor/view.h"

#include <gtest/gtest.h>

#include <numeric>
#include <type_traits>
#include <vector>

namespace prenorm {
namespace {

std::vector<float> counted(std::size_t n) {
  std::vector<float> v(n);
  std::iota(v.begin(), v.end(), 0.0f);
  return v;
}

TEST(View, is_row_major_with_the_last_axis_dense) {
  auto data = counted(24);
  const View<float, 3> x(data.data(), {2, 3, 4});
  EXPECT_EQ(x.stride(0), 12);
  EXPECT_EQ(x.stride(1), 4);
  EXPECT_EQ(x.stride(2), 1);
  EXPECT_EQ(x.size(), 24);
  EXPECT_TRUE(x.contiguous());
  for (Index i = 0; i < 2; ++i) {
    for (Index j = 0; j < 3; ++j) {
      for (Index k = 0; k < 4; ++k) {
        EXPECT_EQ(x[i][j][k], static_cast<float>(12 * i + 4 * j + k));
      }
    }
  }
}

TEST(View, of_rows_and_columns_is_a_window_on_the_same_memory) {
  auto data = counted(20);
  const Matrix x(data.data(), {4, 5});
  const Matrix part = x.rows(1, 2).columns(2, 3);
  EXPECT_EQ(part.dim(0), 2);
  EXPECT_EQ(part.dim(1), 3);
  EXPECT_EQ(part[0][0], 7.0f);
  EXPECT_EQ(part[1][2], 14.0f);
  EXPECT_FALSE(part.contiguous());
  EXPECT_TRUE(x.rows(1, 2).contiguous());
  part[1][0] = -1.0f;
  EXPECT_EQ(data[12], -1.0f);
}

TEST(View, of_a_row_keeps_its_stride) {
  auto data = counted(12);
  const Matrix x(data.data(), {3, 2}, {4, 1});
  const Vector row = x[2];
  EXPECT_EQ(row.dim(0), 2);
  EXPECT_EQ(row.stride(0), 1);
  EXPECT_EQ(row[1], 9.0f);
}

TEST(View, that_is_writable_can_be_read_but_not_the_other_way_round) {
  static_assert(std::is_convertible_v<Matrix, ConstMatrix>);
  static_assert(!std::is_convertible_v<ConstMatrix, Matrix>);
  auto data = counted(6);
  const ConstMatrix x = Matrix(data.data(), {2, 3}, {3, 1});
  EXPECT_EQ(x[1][2], 5.0f);
}

TEST(View, by_default_is_empty_and_false) {
  const Matrix none;
  EXPECT_FALSE(none);
  EXPECT_EQ(none.size(), 0);
  float one = 1;
  EXPECT_TRUE(Vector(&one, {1}));
}

TEST(View, with_an_empty_axis_has_no_elements) {
  auto data = counted(1);
  const Matrix x(data.data(), {0, 4});
  EXPECT_EQ(x.size(), 0);
  EXPECT_TRUE(x.contiguous());
}

}  // namespace
}  // namespace prenorm
