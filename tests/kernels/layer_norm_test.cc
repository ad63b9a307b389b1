#include "prenorm/kernels/layer_norm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/kernels/kernel_test_util.h"
#include "tests/kernels/rows_testing.h"
#include "tests/tolerances.h"

namespace prenorm::kernels {
namespace {

using namespace rows_testing;  // NOLINT

constexpr Index kWidths[] = {1, 2, 3, 15, 16, 17, 100, 768};
constexpr double kEps = 1e-5;

struct Statistics {
  long double mean, rstd;
};

Statistics exact_statistics(ConstMatrix x, Index n, double eps) {
  const Index width = x.dim(1);
  long double mean = 0, correction = 0, variance = 0;
  for (Index c = 0; c < width; ++c) mean += x[n][c];
  mean /= width;
  for (Index c = 0; c < width; ++c) correction += x[n][c] - mean;
  mean += correction / width;
  for (Index c = 0; c < width; ++c) variance += (x[n][c] - mean) * (x[n][c] - mean);
  return {mean, 1 / std::sqrt(variance / width + static_cast<long double>(eps))};
}

// The largest error of y in ulps, over all elements.
double worst_ulps(const PaddedMatrix& x, const std::vector<float>& weight,
                  const std::vector<float>& bias, const PaddedMatrix& y, double eps = kEps) {
  double worst = 0;
  for (Index n = 0; n < x.rows(); ++n) {
    const Statistics s = exact_statistics(x.cview(), n, eps);
    for (Index c = 0; c < x.width(); ++c) {
      const auto i = static_cast<std::size_t>(c);
      const long double expected = (x(n, c) - s.mean) * s.rstd * weight[i] + bias[i];
      worst = std::max(worst, ulps(y(n, c), expected));
    }
  }
  return worst;
}

struct Forward {
  PaddedMatrix y;
  std::vector<double> mean, rstd;
  Forward(const Runtime& run, const PaddedMatrix& x, const std::vector<float>& weight,
          const std::vector<float>& bias, double eps = kEps)
      : y(x.rows(), x.width()),
        mean(static_cast<std::size_t>(x.rows())),
        rstd(static_cast<std::size_t>(x.rows())) {
    layer_norm_forward(run, x.cview(), view_of(weight), view_of(bias), eps, y.view(),
                       {mean.data(), {x.rows()}}, {rstd.data(), {x.rows()}});
  }
};

struct Backward {
  PaddedMatrix dx;
  std::vector<float> dweight, dbias;
  Backward(const Runtime& run, const PaddedMatrix& dy, const PaddedMatrix& x,
           const std::vector<float>& weight, const Forward& forward,
           const PaddedMatrix* residual = nullptr)
      : dx(x.rows(), x.width()),
        dweight(static_cast<std::size_t>(x.width()), 0.5f),
        dbias(static_cast<std::size_t>(x.width()), -0.25f) {
    layer_norm_backward(run, dy.cview(), x.cview(), view_of(weight),
                        {forward.mean.data(), {x.rows()}}, {forward.rstd.data(), {x.rows()}},
                        residual != nullptr ? residual->cview() : ConstMatrix(), dx.view(),
                        view_of(dweight), view_of(dbias));
  }
};

TEST(LayerNorm, is_within_one_ulp_of_the_exact_result_on_every_finite_row) {
  struct Kind {
    float mean, spread;
  };
  const Runtime run;
  for (const Kind kind :
       {Kind{0, 1}, Kind{100, 1}, Kind{1e4f, 1}, Kind{1e4f, 1e-2f}, Kind{0, 1e18f}, Kind{0, 1e19f},
        Kind{1e30f, 1e24f}, Kind{1e30f, 1e29f}, Kind{0, 5e37f}, Kind{0, 1e-40f}, Kind{-3, 1e-3f}}) {
    for (const Index width : kWidths) {
      PaddedMatrix x(7, width);
      fill_normal(x, static_cast<std::uint64_t>(width), kind.mean, kind.spread);
      const auto weight = normal_vector(width, 2, 1.0f), bias = normal_vector(width, 3);
      const std::vector<float> zero(bias.size(), 0.0f);
      // With the bias at zero nothing cancels after the normalisation.
      EXPECT_LE(worst_ulps(x, weight, zero, Forward(run, x, weight, zero).y),
                tolerance::kLayerNormUlps)
          << "mean " << kind.mean << " spread " << kind.spread << " width " << width;
      EXPECT_LE(worst_ulps(x, weight, bias, Forward(run, x, weight, bias).y),
                tolerance::kLayerNormUlps)
          << "mean " << kind.mean << " spread " << kind.spread << " width " << width;
    }
  }
}

TEST(LayerNorm, is_within_one_ulp_on_a_row_of_100003) {
  const Runtime run;
  for (const float mean : {0.0f, 1e6f, 1e30f}) {
    PaddedMatrix x(1, 100003);
    fill_normal(x, 4, mean, mean == 0.0f ? 1.0f : mean * 1e-6f);
    const auto weight = normal_vector(100003, 5, 1.0f), bias = normal_vector(100003, 6);
    EXPECT_LE(worst_ulps(x, weight, bias, Forward(run, x, weight, bias).y),
              tolerance::kLayerNormUlps);
    // The worst shift that a row can hold: its first element far from all others.
    x(0, 0) = mean == 0.0f ? 1e6f : mean * 1e6f;
    EXPECT_LE(worst_ulps(x, weight, bias, Forward(run, x, weight, bias).y),
              tolerance::kLayerNormOutlierUlps);
  }
}

TEST(LayerNorm, keeps_the_largest_floats_finite) {
  const Runtime run;
  PaddedMatrix x(1, 4);
  for (Index c = 0; c < 4; ++c) x(0, c) = c % 2 == 0 ? 3e38f : -3e38f;
  const std::vector<float> one(4, 1.0f), zero(4, 0.0f);
  const Forward forward(run, x, one, zero);
  for (Index c = 0; c < 4; ++c) EXPECT_EQ(forward.y(0, c), c % 2 == 0 ? 1.0f : -1.0f);
}

TEST(LayerNorm, of_a_constant_row_is_exactly_the_bias) {
  const Runtime run;
  for (const Index width : {1, 2, 16, 17, 256, 100003}) {
    for (const float value : {0.0f, 0.1f, 1234.0f, -3e38f, 1e-42f}) {
      PaddedMatrix x(1, width);
      for (Index c = 0; c < width; ++c) x(0, c) = value;
      const auto weight = normal_vector(width, 7, 1e10f), bias = normal_vector(width, 8);
      const Forward forward(run, x, weight, bias);
      for (Index c = 0; c < width; ++c) {
        ASSERT_EQ(forward.y(0, c), bias[static_cast<std::size_t>(c)]) << value << " " << width;
      }
      EXPECT_EQ(forward.mean[0], value);
    }
  }
}

TEST(LayerNorm, gives_a_width_of_one_no_gradient_but_the_bias) {
  const Runtime run;
  PaddedMatrix x(2, 1), dy(2, 1);
  x(0, 0) = 1e6f;
  x(1, 0) = -3.0f;
  dy(0, 0) = dy(1, 0) = 1.0f;
  const std::vector<float> weight = {2.0f}, bias = {3.0f};
  const Backward backward(run, dy, x, weight, Forward(run, x, weight, bias));
  EXPECT_EQ(backward.dx(0, 0), 0.0f);
  EXPECT_EQ(backward.dx(1, 0), 0.0f);
  EXPECT_EQ(backward.dweight[0], 0.5f + 0.0f);
  EXPECT_EQ(backward.dbias[0], -0.25f + 2.0f);
}

TEST(LayerNorm, keeps_what_is_not_finite_in_its_row) {
  const Runtime run;
  const float inf = std::numeric_limits<float>::infinity();
  for (const Index width : {4, 16, 19, 100}) {
    PaddedMatrix x(4, width), clean(4, width);
    fill_normal(clean, 9);
    fill_normal(x, 9);
    x(0, width - 1) = std::numeric_limits<float>::quiet_NaN();
    x(2, 0) = inf;
    x(3, width / 2) = -inf;
    const auto weight = normal_vector(width, 10), bias = normal_vector(width, 11);
    const Forward got(run, x, weight, bias), expected(run, clean, weight, bias);
    for (Index c = 0; c < width; ++c) {
      EXPECT_TRUE(std::isnan(got.y(0, c)));
      EXPECT_EQ(got.y(1, c), expected.y(1, c));
      EXPECT_TRUE(std::isnan(got.y(2, c)));
      EXPECT_TRUE(std::isnan(got.y(3, c)));
    }
  }
}

TEST(LayerNorm, without_weight_and_bias_has_the_bits_of_ones_and_zeros) {
  const Runtime run;
  PaddedMatrix x(5, 100), dy(5, 100);
  fill_normal(x, 12);
  fill_normal(dy, 13);
  const std::vector<float> one(100, 1.0f), zero(100, 0.0f);
  const Forward full(run, x, one, zero);
  PaddedMatrix y(5, 100), dx(5, 100);
  layer_norm_forward(run, x.cview(), {}, {}, kEps, y.view(), {}, {});
  EXPECT_TRUE(y.same_bits(full.y));
  layer_norm_backward(run, dy.cview(), x.cview(), {}, {full.mean.data(), {5}},
                      {full.rstd.data(), {5}}, {}, dx.view(), {}, {});
  EXPECT_TRUE(dx.same_bits(Backward(run, dy, x, one, full).dx));
}

TEST(LayerNorm, accepts_no_rows) {
  const Runtime run;
  const std::vector<float> weight(4, 1.0f);
  std::vector<float> dweight(4, 2.0f);
  PaddedMatrix x(0, 4);
  layer_norm_forward(run, x.cview(), view_of(weight), {}, kEps, x.view(), {}, {});
  layer_norm_backward(run, x.cview(), x.cview(), view_of(weight), {}, {}, {}, x.view(),
                      view_of(dweight), {});
  EXPECT_EQ(dweight, std::vector<float>(4, 2.0f));
  EXPECT_TRUE(x.guards_intact());
}

// The formula of the file's head, in long double.
TEST(LayerNorm, backward_is_the_analytic_gradient) {
  const Runtime run;
  for (const float mean : {0.0f, 1e4f}) {
    for (const Index width : kWidths) {
      const Index rows = 300;
      PaddedMatrix x(rows, width), dy(rows, width), residual(rows, width);
      fill_normal(x, 14, mean, mean == 0.0f ? 1.0f : 0.5f);
      fill_normal(dy, 15);
      fill_normal(residual, 16);
      const auto weight = normal_vector(width, 17, 1.0f);
      const std::vector<float> bias(weight.size(), 0.0f);
      const Forward forward(run, x, weight, bias);
      const Backward plain(run, dy, x, weight, forward);
      const Backward added(run, dy, x, weight, forward, &residual);

      std::vector<long double> dweight(weight.size(), 0.5L), dbias(weight.size(), -0.25L);
      std::vector<long double> size(weight.size(), 1.0L);
      for (Index n = 0; n < rows; ++n) {
        const Statistics s = exact_statistics(x.cview(), n, kEps);
        long double sum = 0, products = 0, largest = 0;
        for (Index c = 0; c < width; ++c) {
          const auto i = static_cast<std::size_t>(c);
          const long double hat = (x(n, c) - s.mean) * s.rstd;
          const long double g = static_cast<long double>(weight[i]) * dy(n, c);
          sum += g;
          products += g * hat;
          largest = std::max(largest, std::fabs(g) * s.rstd);
          dweight[i] += dy(n, c) * hat;
          dbias[i] += dy(n, c);
          size[i] += std::fabs(dy(n, c)) * std::max(1.0L, std::fabs(hat));
        }
        for (Index c = 0; c < width; ++c) {
          const auto i = static_cast<std::size_t>(c);
          const long double hat = (x(n, c) - s.mean) * s.rstd;
          const long double g = static_cast<long double>(weight[i]) * dy(n, c);
          const long double expected = s.rstd * (g - sum / width - hat * products / width);
          ASSERT_NEAR(static_cast<double>(plain.dx(n, c)), static_cast<double>(expected),
                      static_cast<double>(std::fabs(expected) * 6e-8L + largest * 1e-11L));
          ASSERT_EQ(added.dx(n, c), residual(n, c) + plain.dx(n, c));
        }
      }
      for (std::size_t i = 0; i < weight.size(); ++i) {
        // Two blocks: two roundings of block sums and two float additions.
        ASSERT_NEAR(plain.dweight[i], static_cast<double>(dweight[i]),
                    static_cast<double>(size[i]) * 3e-8);
        ASSERT_NEAR(plain.dbias[i], static_cast<double>(dbias[i]),
                    static_cast<double>(size[i]) * 3e-8);
      }
    }
  }
}

TEST(LayerNorm, may_run_in_place) {
  const Runtime run;
  for (const Index width : {3, 100}) {
    PaddedMatrix x(300, width), dy(300, width), residual(300, width);
    fill_normal(x, 18);
    fill_normal(dy, 19);
    fill_normal(residual, 20);
    const auto weight = normal_vector(width, 21), bias = normal_vector(width, 22);
    const Forward forward(run, x, weight, bias);
    const ConstDoubleVector mean(forward.mean.data(), {300}), rstd(forward.rstd.data(), {300});
    const Backward expected(run, dy, x, weight, forward, &residual);
    const Backward twice(run, dy, x, weight, forward, &dy);

    PaddedMatrix over_dy = dy, over_residual = residual, over_both = dy, y = x;
    layer_norm_backward(run, over_dy.cview(), x.cview(), view_of(weight), mean, rstd,
                        residual.cview(), over_dy.view(), {}, {});
    EXPECT_TRUE(over_dy.same_bits(expected.dx));
    layer_norm_backward(run, dy.cview(), x.cview(), view_of(weight), mean, rstd,
                        over_residual.cview(), over_residual.view(), {}, {});
    EXPECT_TRUE(over_residual.same_bits(expected.dx));
    layer_norm_backward(run, over_both.cview(), x.cview(), view_of(weight), mean, rstd,
                        over_both.cview(), over_both.view(), {}, {});
    EXPECT_TRUE(over_both.same_bits(twice.dx));
    layer_norm_forward(run, y.cview(), view_of(weight), view_of(bias), kEps, y.view(), {}, {});
    EXPECT_TRUE(y.same_bits(forward.y));
  }
}

TEST(LayerNorm, gives_the_same_bits_on_every_isa_and_thread_count) {
  for (const Index width : {1, 2, 3, 15, 16, 17, 100, 768, 100003}) {
    // 700 rows: blocks of 256 that end short, strips of columns for some thread counts.
    const Index rows = width > 1000 ? 3 : 700;
    PaddedMatrix x(rows, width), dy(rows, width);
    fill_normal(x, 23, 3.0f);
    fill_normal(dy, 24);
    const auto weight = normal_vector(width, 25), bias = normal_vector(width, 26);
    const Runtime first({.threads = 1, .isa = isa_name(supported_isas().front())});
    const Forward forward(first, x, weight, bias);
    const Backward backward(first, dy, x, weight, forward, &dy);
    EXPECT_TRUE(forward.y.guards_intact());
    EXPECT_TRUE(backward.dx.guards_intact());
    on_every_runtime([&](const Runtime& run) {
      const Forward f(run, x, weight, bias);
      EXPECT_TRUE(f.y.same_bits(forward.y)) << "width " << width;
      EXPECT_TRUE(same_bits(f.mean, forward.mean)) << "width " << width;
      EXPECT_TRUE(same_bits(f.rstd, forward.rstd)) << "width " << width;
      const Backward b(run, dy, x, weight, f, &dy);
      EXPECT_TRUE(b.dx.same_bits(backward.dx)) << "width " << width;
      EXPECT_TRUE(same_bits(b.dweight, backward.dweight)) << "width " << width;
      EXPECT_TRUE(same_bits(b.dbias, backward.dbias)) << "width " << width;
    });
  }
}

TEST(LayerNorm, accumulates_micro_batches_of_256_rows_to_the_bits_of_one_batch) {
  const Runtime run({.threads = 3, .isa = "auto"});
  const Index width = 100, rows = 1024;
  PaddedMatrix x(rows, width), dy(rows, width);
  fill_normal(x, 27);
  fill_normal(dy, 28);
  const auto weight = normal_vector(width, 29), bias = normal_vector(width, 30);
  const Forward forward(run, x, weight, bias);
  const Backward whole(run, dy, x, weight, forward);
  for (const Index micro : {256, 512}) {
    PaddedMatrix dx(rows, width);
    std::vector<float> dweight(weight.size(), 0.5f), dbias(weight.size(), -0.25f);
    for (Index n = 0; n < rows; n += micro) {
      layer_norm_backward(run, dy.cview().rows(n, micro), x.cview().rows(n, micro), view_of(weight),
                          {forward.mean.data() + n, {micro}}, {forward.rstd.data() + n, {micro}},
                          {}, dx.view().rows(n, micro), view_of(dweight), view_of(dbias));
    }
    EXPECT_TRUE(dx.same_bits(whole.dx));
    EXPECT_TRUE(same_bits(dweight, whole.dweight));
    EXPECT_TRUE(same_bits(dbias, whole.dbias));
  }
}

TEST(LayerNorm, of_a_row_alone_equals_the_row_in_a_batch) {
  const Runtime run({.threads = 2, .isa = "auto"});
  PaddedMatrix x(64, 100);
  fill_normal(x, 31);
  const auto weight = normal_vector(100, 32), bias = normal_vector(100, 33);
  const Forward batch(run, x, weight, bias);
  PaddedMatrix y(64, 100);
  for (Index n = 0; n < 64; ++n) {
    layer_norm_forward(run, x.cview().rows(n, 1), view_of(weight), view_of(bias), kEps,
                       y.view().rows(n, 1), {}, {});
  }
  EXPECT_TRUE(y.same_bits(batch.y));
}

}  // namespace
}  // namespace prenorm::kernels
