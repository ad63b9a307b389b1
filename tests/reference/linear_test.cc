#include "prenorm/reference/linear.h"

#include <gtest/gtest.h>

#include "tests/reference/values.h"

namespace prenorm::reference {
namespace {

const Tensor<double> kX({2, 2}, {1, 2, 3, 4});
const LinearParameters<double> kSquare{Tensor<double>({2, 2}, {10, 20, 30, 40}),
                                       Tensor<double>({2}, {1, 2})};

TEST(Linear, rows_by_columns_plus_bias) {
  EXPECT_EQ(linear(kX, kSquare), Tensor<double>({2, 2}, {71, 102, 151, 222}));
}

TEST(Linear, gradients_by_hand) {
  const auto [dx, dp] = linear_backward(Tensor<double>({2, 2}, {1, 0, 0, 1}), kX, kSquare);
  EXPECT_EQ(dx, Tensor<double>({2, 2}, {10, 30, 20, 40}));
  EXPECT_EQ(dp.weight, Tensor<double>({2, 2}, {1, 3, 2, 4}));
  EXPECT_EQ(dp.bias, Tensor<double>({2}, {1, 1}));
}

TEST(Linear, a_transposed_matrix_and_a_dropped_bias_show) {
  const LinearOptions transpose{.mistakes = {.transposed = true}},
      no_bias{.mistakes = {.no_bias = true}};
  EXPECT_EQ(linear(kX, kSquare, transpose), Tensor<double>({2, 2}, {51, 112, 111, 252}));
  EXPECT_EQ(linear(kX, kSquare, no_bias), Tensor<double>({2, 2}, {70, 100, 150, 220}));
}

TEST(Linear, all_axes_before_the_features_are_kept) {
  EXPECT_EQ(linear(val(1, {2, 3, 4}), {val(2, {4, 5}), {}}).shape(), (std::vector<Index>{2, 3, 5}));
}

TEST(Linear, a_matrix_that_does_not_fit_is_refused) {
  EXPECT_THROW(linear(kX, {val(1, {3, 2}), {}}), ShapeError);
  EXPECT_THROW(linear(kX, {val(1, {2, 3}), val(2, {2})}), ShapeError);
}

}  // namespace
}  // namespace prenorm::reference
