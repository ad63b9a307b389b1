#include "prenorm/reference/layer_norm.h"

#include <gtest/gtest.h>

#include "tests/reference/values.h"

namespace prenorm::reference {
namespace {

TEST(LayerNorm, four_numbers_by_hand) {
  // Mean 2, variance (1 + 4 + 1 + 4)/4 = 2.5: ε of 1.5 makes the root exactly 2.
  const Tensor<double> x({1, 4}, {1.0, 4.0, 3.0, 0.0});
  EXPECT_EQ(layer_norm(x, {}, {.eps = 1.5}), Tensor<double>({1, 4}, {-0.5, 1.0, 0.5, -1.0}));
  const LayerNormParameters<double> p{Tensor<double>({4}, {2, 1, 4, 3}),
                                      Tensor<double>({4}, {1, 1, 1, 0.5})};
  EXPECT_EQ(layer_norm(x, p, {.eps = 1.5}), Tensor<double>({1, 4}, {0.0, 2.0, 3.0, -2.5}));
}

TEST(LayerNorm, statistics_of_a_row_and_of_a_channel_by_hand) {
  const Tensor<double> x({2, 2}, {1.0, 3.0, 5.0, 11.0});
  const auto row = line_statistics(x, normalized_line(x, 1, false));
  EXPECT_EQ(row.mean, 8.0);
  EXPECT_EQ(row.variance, 9.0);
  EXPECT_EQ(line_denominator(row.variance, {.eps = 7.0}), 4.0);
  EXPECT_EQ(line_statistics(x, normalized_line(x, 1, false), {.ddof = true}).variance, 18.0);
  const auto channel = line_statistics(x, normalized_line(x, 1, true));
  EXPECT_EQ(channel.mean, 7.0);
  EXPECT_EQ(channel.variance, 16.0);
  EXPECT_EQ(normalized_lines(x, true), 2);
}

TEST(LayerNorm, rows_have_mean_zero_and_variance_a_little_under_one) {
  const Tensor<double> y = layer_norm(val(1, {3, 50}), {}, {.eps = 0.25});
  const Tensor<double> x = val(1, {3, 50});
  for (Index n = 0; n < 3; ++n) {
    double mean = 0, square = 0, x_mean = 0, x_square = 0;
    for (Index c = 0; c < 50; ++c) {
      mean += y(n, c) / 50, square += y(n, c) * y(n, c) / 50;
      x_mean += x(n, c) / 50, x_square += x(n, c) * x(n, c) / 50;
    }
    const double variance = x_square - x_mean * x_mean;
    EXPECT_NEAR(mean, 0.0, 1e-15);
    EXPECT_NEAR(square, variance / (variance + 0.25), 1e-14);
  }
}

TEST(LayerNorm, a_constant_row_gives_the_bias) {
  const Tensor<double> x = Tensor<double>::filled({1, 3}, 1234.5);
  const LayerNormParameters<double> p{val(1, {3}), val(2, {3})};
  EXPECT_EQ(layer_norm(x, p).values(), p.bias.values());
}

TEST(LayerNorm, a_shift_and_a_scale_of_the_row_hardly_matter) {
  const Tensor<double> x = val(1, {2, 16});
  Tensor<double> moved = x;
  for (double& element : moved) element = 1000.0 * element + 7.0;
  EXPECT_LT(largest_difference(layer_norm(moved, {}, {.eps = 0}), layer_norm(x, {}, {.eps = 0})),
            1e-13);
}

TEST(LayerNorm, each_mistake_by_hand) {
  const Tensor<double> x({2, 2}, {1.0, 3.0, 5.0, 11.0});  // means 2 and 8, variances 1 and 9
  const auto with = [&](LayerNormMistakes mistakes, double eps = 0.0) {
    const LayerNormParameters<double> p{Tensor<double>({2}, {2.0, 2.0}),
                                        Tensor<double>({2}, {1.0, 1.0})};
    return layer_norm(x, p, {.eps = eps, .mistakes = mistakes}).values();
  };
  using Values = std::vector<double>;
  EXPECT_EQ(with({}), (Values{-1, 3, -1, 3}));
  EXPECT_EQ(with({}, 7.0)[3], 2 * 3.0 / 4.0 + 1);
  EXPECT_EQ(with({.eps_place = EpsilonPlace::kOutsideRoot}, 1.0), (Values{0, 2, -0.5, 2.5}));
  EXPECT_EQ(with({.eps_place = EpsilonPlace::kAddedAfter}, 1.0), (Values{1, 5, 1, 5}));
  EXPECT_DOUBLE_EQ(with({.ddof = true})[3], 2 / std::sqrt(2.0) + 1);
  EXPECT_EQ(with({.over_time = true}), (Values{-1, -1, 3, 3}));
  EXPECT_EQ(with({.no_weight = true, .no_bias = true}), (Values{-1, 1, -1, 1}));
  EXPECT_EQ(with({.no_bias = true}), (Values{-2, 2, -2, 2}));
  EXPECT_DOUBLE_EQ(with({.rms = true})[0], 2 * 1 / std::sqrt(5.0) + 1);
}

TEST(LayerNorm, wrong_shapes_are_named) {
  try {
    layer_norm(val(1, {2, 4}), {val(2, {3}), {}});
    FAIL() << "no error";
  } catch (const ShapeError& error) {
    EXPECT_STREQ(error.what(), "layer_norm: weight: expected [4], found [3]");
  }
}

TEST(LayerNorm, an_empty_batch_has_zero_parameter_gradients) {
  const LayerNormParameters<double> p{val(1, {4}), val(2, {4})};
  const Tensor<double> x({0, 4});
  EXPECT_EQ(layer_norm(x, p).shape(), x.shape());
  EXPECT_EQ(layer_norm_backward(x, x, p).dparameters.weight, Tensor<double>({4}));
}

}  // namespace
}  // namespace prenorm::reference
