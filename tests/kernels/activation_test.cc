#include "prenorm/kernels/activation.h"

#include <cmath>
#include <limits>

#include "tests/kernels/float_ulp.h"
#include "tests/kernels/kernel_test_util.h"
#include "tests/tolerances.h"

namespace prenorm {
namespace {

using kernels::activation_backward;
using kernels::activation_forward;
using Exact = long double;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr Activation kAll[] = {Activation::kRelu, Activation::kGelu, Activation::kGeluTanh};

const Exact kPi = std::acos(Exact{-1});

// z of gelu-tanh's sigmoid, and its derivative.
Exact twice_u(Exact x) { return 2 * std::sqrt(2 / kPi) * (x + 0.044715L * x * x * x); }
Exact twice_u_slope(Exact x) { return 2 * std::sqrt(2 / kPi) * (1 + 3 * 0.044715L * x * x); }

// Written so that nothing cancels in the negative tail.
Exact exact(Activation act, Exact x) {
  if (act == Activation::kRelu) return x > 0 ? x : 0;
  if (x < -40) return -0.0L;
  if (act == Activation::kGelu) return x * std::erfc(-x / std::sqrt(Exact{2})) / 2;
  const Exact z = twice_u(x);
  return x >= 0 ? x / (1 + std::exp(-z)) : x * std::exp(z) / (1 + std::exp(z));
}

Exact exact_slope(Activation act, Exact x) {
  if (act == Activation::kRelu || std::fabs(x) > 40) return x > 0;
  if (act == Activation::kGelu) {
    return std::erfc(-x / std::sqrt(Exact{2})) / 2 + x * std::exp(-x * x / 2) / std::sqrt(2 * kPi);
  }
  const Exact z = twice_u(x), gate = 1 / (1 + std::exp(-z)), rest = 1 / (1 + std::exp(z));
  return gate * (1 + x * rest * twice_u_slope(x));
}

TestMatrix all_floats(std::uint64_t stride) {
  std::vector<float> xs;
  each_float(stride, [&](float x) { xs.push_back(x); });
  TestMatrix m(1, static_cast<Index>(xs.size()));
  m.data = xs;
  return m;
}

TestMatrix ones_like(const TestMatrix& x) {
  TestMatrix m(x.rows, x.columns);
  m.data.assign(m.data.size(), 1.0f);
  return m;
}

TEST(Activation, forward_is_within_4_ulp_of_every_float) {
  const Runtime run;
  const TestMatrix x = all_floats(2503);
  TestMatrix y(x.rows, x.columns);
  for (Activation act : kAll) {
    activation_forward(run, act, x.view(), y.view());
    double worst = 0;
    float where = 0;
    for (Index i = 0; i < x.columns; ++i) {
      const double ulps = float_ulps(y.at(0, i), exact(act, x.at(0, i)));
      if (ulps > worst) worst = ulps, where = x.at(0, i);
    }
    EXPECT_LE(worst, act == Activation::kRelu ? 0.0 : tolerance::kActivationUlps)
        << activation_name(act) << " at " << where;
  }
}

TEST(Activation, keeps_its_digits_in_the_far_negative_tail) {
  const Runtime run;
  TestMatrix x(1, 200000), y(1, 200000);
  for (Index i = 0; i < x.columns; ++i) x.at(0, i) = -2.0f - 0.000064f * static_cast<float>(i);
  for (Activation act : {Activation::kGelu, Activation::kGeluTanh}) {
    activation_forward(run, act, x.view(), y.view());
    for (Index i = 0; i < x.columns; ++i) {
      ASSERT_LE(float_ulps(y.at(0, i), exact(act, x.at(0, i))), tolerance::kActivationUlps)
          << activation_name(act) << " at " << x.at(0, i);
    }
  }
}

TEST(Activation, slope_is_accurate_and_finite_for_every_float) {
  const Runtime run;
  const TestMatrix x = all_floats(2503), dy = ones_like(x);
  TestMatrix dx(x.rows, x.columns);
  for (Activation act : kAll) {
    activation_backward(run, act, dy.view(), x.view(), dx.view());
    for (Index i = 0; i < x.columns; ++i) {
      const double error = static_cast<double>(
          std::fabs(static_cast<Exact>(dx.at(0, i)) - exact_slope(act, x.at(0, i))));
      ASSERT_LE(error, tolerance::kActivationSlope) << activation_name(act) << " at " << x.at(0, i);
    }
  }
}

TEST(Activation, slope_keeps_its_digits_in_the_far_negative_tail) {
  const Runtime run;
  TestMatrix x(1, 20000), dx(1, 20000);
  for (Index i = 0; i < x.columns; ++i) x.at(0, i) = -2.0f - 0.00064f * static_cast<float>(i);
  const TestMatrix dy = ones_like(x);
  for (Activation act : {Activation::kGelu, Activation::kGeluTanh}) {
    activation_backward(run, act, dy.view(), x.view(), dx.view());
    for (Index i = 0; i < x.columns; ++i) {
      ASSERT_LE(float_ulps(dx.at(0, i), exact_slope(act, x.at(0, i))),
                tolerance::kActivationSlopeTailUlps)
          << activation_name(act) << " at " << x.at(0, i);
    }
  }
}

TEST(Activation, backward_multiplies_the_incoming_gradient) {
  const Runtime run;
  const TestMatrix x = TestMatrix::random(3, 37, 1, 2, 3.0f);
  const TestMatrix dy = TestMatrix::random(3, 37, 2, 5);
  for (Activation act : kAll) {
    TestMatrix dx(3, 37, 1);
    activation_backward(run, act, dy.view(), x.view(), dx.view());
    for (Index r = 0; r < 3; ++r) {
      for (Index c = 0; c < 37; ++c) {
        const Exact wanted = dy.at(r, c) * exact_slope(act, x.at(r, c));
        EXPECT_NEAR(dx.at(r, c), static_cast<double>(wanted), 4e-7) << activation_name(act);
      }
    }
  }
}

TEST(Activation, special_values) {
  const Runtime run;
  TestMatrix x(1, 6), y(1, 6), dx(1, 6);
  x.data = {kInfinity, -kInfinity, kNan, 0.0f, -0.0f, std::numeric_limits<float>::max()};
  const TestMatrix dy = ones_like(x);
  for (Activation act : kAll) {
    activation_forward(run, act, x.view(), y.view());
    activation_backward(run, act, dy.view(), x.view(), dx.view());
    EXPECT_EQ(y.at(0, 0), kInfinity);
    EXPECT_EQ(y.at(0, 1), 0.0f);
    EXPECT_TRUE(std::isnan(y.at(0, 2)));
    EXPECT_EQ(y.at(0, 3), 0.0f);
    EXPECT_EQ(y.at(0, 4), 0.0f);
    EXPECT_EQ(y.at(0, 5), x.at(0, 5));
    EXPECT_EQ(dx.at(0, 0), 1.0f);
    EXPECT_EQ(dx.at(0, 1), 0.0f);
    EXPECT_TRUE(std::isnan(dx.at(0, 2)));
    EXPECT_EQ(dx.at(0, 3), act == Activation::kRelu ? 0.0f : 0.5f);
    EXPECT_EQ(dx.at(0, 5), 1.0f);
  }
}

TEST(Activation, bits_do_not_depend_on_target_threads_strides_or_aliasing) {
  for (Index columns : {1, 7, 16, 65, 1003}) {
    const TestMatrix x = TestMatrix::random(9, columns, 3, 3, 6.0f);
    const TestMatrix dy = TestMatrix::random(9, columns, 4, 1);
    for (Activation act : kAll) {
      TestMatrix y(9, columns), dx(9, columns);
      activation_forward(Runtime(), act, x.view(), y.view());
      activation_backward(Runtime(), act, dy.view(), x.view(), dx.view());
      on_every_runtime([&](const Runtime& run) {
        TestMatrix in_place = x, gradient = dy;
        activation_backward(run, act, gradient.view(), x.view(), gradient.view());
        activation_forward(run, act, in_place.view(), in_place.view());
        EXPECT_TRUE(same_bits(in_place, y)) << activation_name(act) << " " << columns;
        EXPECT_TRUE(same_bits(gradient, dx)) << activation_name(act) << " " << columns;
        EXPECT_EQ(in_place.data[static_cast<std::size_t>(columns)],
                  x.data[static_cast<std::size_t>(columns)])
            << "wrote past the end of a row";
      });
    }
  }
}

TEST(Activation, names_and_their_synonyms) {
  EXPECT_EQ(activation_names().size(), 3u);
  for (Activation act : kAll) {
    EXPECT_EQ(activation_names()[static_cast<std::size_t>(act)], activation_name(act));
    EXPECT_EQ(activation_from_name(activation_name(act)), act);
  }
  EXPECT_EQ(activation_from_name("gelu_new"), Activation::kGeluTanh);
  EXPECT_EQ(activation_from_name("gelu_pytorch_tanh"), Activation::kGeluTanh);
  EXPECT_EQ(activation_from_name("swish"), std::nullopt);
  EXPECT_EQ(activation_from_name(""), std::nullopt);
}

}  // namespace
}  // namespace prenorm
