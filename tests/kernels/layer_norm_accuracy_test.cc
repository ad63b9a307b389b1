// Layer norm on rows that defeat float statistics: far from zero, huge, denormal, constant, of
// width 1 to 100,003. The reference is long double with the mean as a pair.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "prenorm/kernels/layer_norm.h"
#include "tests/kernels/kernel_test_util.h"
#include "tests/kernels/rows_testing.h"
#include "tests/tolerances.h"

namespace prenorm::kernels {
namespace {

using namespace rows_testing;  // NOLINT
using Exact = long double;

constexpr double kEps = 1e-5;

struct Kind {
  const char* name;
  float mean, spread;
  bool uniform = false;  // else about normal
};
constexpr Kind kKinds[] = {{"random", 0, 1},
                           {"mean 100, spread 1", 100, 1},
                           {"mean 1e4, spread 1", 1e4f, 1},
                           {"mean 1e4, spread 1e-2", 1e4f, 1e-2f},
                           {"mean -1e7, spread 3", -1e7f, 3},
                           {"size 1e18", 0, 1e18f},
                           {"mean 1e18, spread 1e12", 1e18f, 1e12f},
                           {"mean 1e30, spread 1e24", 1e30f, 1e24f},
                           {"size 1e30", 0, 1e30f},
                           {"size 3e38", 0, 3e38f, true},
                           {"mean 3e38, spread 1e33", 3e38f, 1e33f},
                           {"denormal", 0, 1e-40f}};

PaddedMatrix rows_of(const Kind& kind, Index rows, Index width) {
  PaddedMatrix x(rows, width);
  const PhiloxKey key{static_cast<std::uint32_t>(width), 5};
  for (Index n = 0; n < rows; ++n) {
    for (Index c = 0; c < width; ++c) {
      const auto i = static_cast<std::uint64_t>(n * width + c);
      const float z = kind.uniform ? static_cast<float>(2.0 * random_double(key, i) - 1.0)
                                   : normal_value(static_cast<std::uint64_t>(width), i);
      x(n, c) = kind.mean + kind.spread * z;
    }
  }
  return x;
}

// x - mean and 1 / sqrt(variance + eps) of a row.
struct ExactRow {
  std::vector<Exact> centred;
  Exact rstd = 0;
  ExactRow(const PaddedMatrix& x, Index n) : centred(static_cast<std::size_t>(x.width())) {
    const Index width = x.width();
    Exact mean = 0, rest = 0, variance = 0;
    for (Index c = 0; c < width; ++c) mean += x(n, c);
    mean /= width;
    for (Index c = 0; c < width; ++c) rest += x(n, c) - mean;
    rest /= width;
    for (Index c = 0; c < width; ++c) {
      Exact& d = centred[static_cast<std::size_t>(c)];
      d = (x(n, c) - mean) - rest;
      variance += d * d;
    }
    rstd = 1 / std::sqrt(variance / width + static_cast<Exact>(kEps));
  }
};

struct Case {
  PaddedMatrix x, dy, y, dx;
  std::vector<float> weight, bias, dweight, dbias;
  explicit Case(const PaddedMatrix& rows)
      : x(rows),
        dy(x.rows(), x.width()),
        y(x.rows(), x.width()),
        dx(x.rows(), x.width()),
        weight(normal_vector(x.width(), 2, 1.0f)),
        bias(normal_vector(x.width(), 3)),
        dweight(weight.size(), 0.0f),
        dbias(weight.size(), 0.0f) {
    fill_normal(dy, 4);
    const Runtime run;
    const auto count = static_cast<std::size_t>(x.rows());
    std::vector<double> mean(count), rstd(count);
    layer_norm_forward(run, x.cview(), view_of(weight), view_of(bias), kEps, y.view(),
                       {mean.data(), {x.rows()}}, {rstd.data(), {x.rows()}});
    layer_norm_backward(run, dy.cview(), x.cview(), view_of(weight), {mean.data(), {x.rows()}},
                        {rstd.data(), {x.rows()}}, {}, dx.view(), view_of(dweight), view_of(dbias));
  }
};

// Squares of ‖got − want‖, ‖want‖ and the norm of the terms that want is what remains of.
struct NormError {
  Exact error = 0, size = 0, terms = 0;
  void add(float got, Exact want, Exact term = 0) {
    error += (got - want) * (got - want);
    size += want * want;
    terms += term * term;
  }
  Exact allowed() const {
    const Exact norm = tolerance::kFloatNorm * std::sqrt(size);
    const Exact cancelled = tolerance::kLayerNormCancellation * std::sqrt(terms);
    return (norm + cancelled) * (norm + cancelled);
  }
};

double forward_ulps(const Case& c) {
  double worst = 0;
  for (Index n = 0; n < c.x.rows(); ++n) {
    const ExactRow row(c.x, n);
    for (Index i = 0; i < c.x.width(); ++i) {
      const auto j = static_cast<std::size_t>(i);
      worst = std::max(worst, ulps(c.y(n, i), row.centred[j] * row.rstd * c.weight[j] + c.bias[j]));
    }
  }
  return worst;
}

struct GradientErrors {
  NormError dx, dweight, dbias;
};

GradientErrors gradient_errors(const Case& c) {
  GradientErrors errors;
  const Index width = c.x.width();
  std::vector<Exact> dweight(c.weight.size(), 0), dbias(c.weight.size(), 0);
  for (Index n = 0; n < c.x.rows(); ++n) {
    const ExactRow row(c.x, n);
    Exact sum = 0, products = 0;
    for (Index i = 0; i < width; ++i) {
      const auto j = static_cast<std::size_t>(i);
      const Exact hat = row.centred[j] * row.rstd, g = Exact{c.weight[j]} * c.dy(n, i);
      sum += g;
      products += g * hat;
      dweight[j] += c.dy(n, i) * hat;
      dbias[j] += c.dy(n, i);
    }
    for (Index i = 0; i < width; ++i) {
      const auto j = static_cast<std::size_t>(i);
      const Exact hat = row.centred[j] * row.rstd, g = Exact{c.weight[j]} * c.dy(n, i);
      errors.dx.add(c.dx(n, i), row.rstd * (g - sum / width - hat * products / width),
                    row.rstd * g);
    }
  }
  for (std::size_t j = 0; j < dweight.size(); ++j) {
    errors.dweight.add(c.dweight[j], dweight[j]);
    errors.dbias.add(c.dbias[j], dbias[j]);
  }
  return errors;
}

void each_case(const std::function<void(const Case&)>& body) {
  for (const Index width : {1, 2, 3, 768, 100003}) {
    for (const Kind& kind : kKinds) {
      SCOPED_TRACE(std::string(kind.name) + ", width " + std::to_string(width));
      body(Case(rows_of(kind, width > 1000 ? 2 : 9, width)));
    }
  }
}

TEST(LayerNormAccuracy, forward_is_within_4_ulp_on_every_finite_row) {
  each_case([](const Case& c) { EXPECT_LE(forward_ulps(c), tolerance::kLayerNormUlps); });
}

TEST(LayerNormAccuracy, gradients_are_within_1e_6_of_their_norms_on_every_finite_row) {
  each_case([](const Case& c) {
    const GradientErrors e = gradient_errors(c);
    EXPECT_LE(e.dx.error, e.dx.allowed());
    EXPECT_LE(e.dweight.error, e.dweight.allowed());
    EXPECT_LE(e.dbias.error, e.dbias.allowed());
  });
}

}  // namespace
}  // namespace prenorm::kernels
