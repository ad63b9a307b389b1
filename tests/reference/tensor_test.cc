#include "prenorm/reference/tensor.h"

#include <gtest/gtest.h>

namespace prenorm::reference {
namespace {

TEST(Tensor, all_axes_but_the_last_are_rows) {
  Tensor<double> x({2, 3, 4});
  x[4 * 5 + 3] = 7.0;
  EXPECT_EQ(x.rows(), 6);
  EXPECT_EQ(x.columns(), 4);
  EXPECT_EQ(x(5, 3), 7.0);
}

TEST(Tensor, an_empty_batch_is_not_an_absent_tensor) {
  EXPECT_TRUE(Tensor<double>().absent());
  const Tensor<double> empty({0, 4});
  EXPECT_FALSE(empty.absent());
  EXPECT_EQ(empty.rows(), 0);
  EXPECT_EQ(empty.columns(), 4);
  EXPECT_TRUE(zeros_like(Tensor<double>()).absent());
}

TEST(Tensor, values_that_do_not_fit_the_shape_are_refused) {
  try {
    Tensor<double>({2, 2}, {1.0, 2.0, 3.0});
    FAIL() << "no error";
  } catch (const ShapeError& error) {
    EXPECT_STREQ(error.what(), "Tensor: expected 4 values for [2, 2], found 3");
  }
}

TEST(Tensor, a_strided_view_is_copied_in_its_logical_order) {
  std::vector<float> memory{0, 1, 2, 3, 4, 5, 6, 7};
  const View<float, 2> middle = View<float, 2>(memory.data(), {2, 4}).columns(1, 2);
  EXPECT_EQ(to_tensor(middle), Tensor<double>({2, 2}, {1, 2, 5, 6}));
  EXPECT_TRUE(to_tensor(View<float, 1>()).absent());
  EXPECT_EQ(to_tensor(View<float, 3>(memory.data(), {2, 2, 2}))(3, 1), 7.0);
}

TEST(Tensor, extents_are_batch_and_time) {
  EXPECT_EQ(extents_of("x", Tensor<double>({2, 3, 4})).batch, 2);
  EXPECT_EQ(extents_of("x", Tensor<double>({3, 4})).time, 3);
  EXPECT_THROW(extents_of("x", Tensor<double>({3})), ShapeError);
}

}  // namespace
}  // namespace prenorm::reference
