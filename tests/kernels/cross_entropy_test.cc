#include "prenorm/kernels/cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tests/kernels/float_ulp.h"
#include "tests/kernels/kernel_test_util.h"
#include "tests/tolerances.h"

namespace prenorm {
namespace {

using kernels::cross_entropy_forward;
using kernels::cross_entropy_forward_backward;
using kernels::kIgnoreTarget;
using Exact = long double;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

View<const TokenId, 1> view_of(const std::vector<TokenId>& targets) {
  return {targets.data(), {static_cast<Index>(targets.size())}};
}

std::vector<double> forward(const Runtime& run, const TestMatrix& logits,
                            const std::vector<TokenId>& targets) {
  std::vector<double> losses(targets.size(), -1.0);
  cross_entropy_forward(run, logits.view(), view_of(targets),
                        DoubleVector(losses.data(), {logits.rows}));
  return losses;
}

// The losses; the logits become gradients.
std::vector<double> backward(const Runtime& run, TestMatrix& logits,
                             const std::vector<TokenId>& targets, double scale) {
  std::vector<double> losses(targets.size(), -1.0);
  cross_entropy_forward_backward(run, logits.view(), view_of(targets), scale,
                                 DoubleVector(losses.data(), {logits.rows}));
  return losses;
}

std::vector<Exact> exact_softmax(const TestMatrix& x, Index row) {
  std::vector<Exact> p(static_cast<std::size_t>(x.columns));
  const float* z = x.view()[row].data();
  const Exact top = *std::max_element(z, z + x.columns);
  std::transform(z, z + x.columns, p.begin(), [&](float v) { return std::exp(v - top); });
  const Exact sum = std::accumulate(p.begin(), p.end(), Exact{0});
  for (Exact& v : p) v /= sum;
  return p;
}

// log(1 + Σ_{v ≠ target} exp(z_v − z_target)).
Exact exact_loss(const TestMatrix& x, Index row, TokenId target) {
  Exact others = 0;
  for (Index v = 0; v < x.columns; ++v) {
    if (v != target) others += std::exp(static_cast<Exact>(x.at(row, v)) - x.at(row, target));
  }
  return std::log1p(others);
}

std::vector<TokenId> some_targets(const TestMatrix& x) {
  std::vector<TokenId> targets;
  for (Index n = 0; n < x.rows; ++n) {
    targets.push_back(static_cast<TokenId>(n * 7919 % x.columns));
  }
  return targets;
}

TEST(Softmax, is_within_8_ulp_at_50257_classes) {
  const Runtime run;
  for (const float size : {1.0f, 10.0f, 60.0f}) {
    const TestMatrix x = TestMatrix::random(2, 50257, 5, 0, size);
    TestMatrix y(2, 50257);
    kernels::softmax(run, x.view(), y.view());
    for (Index n = 0; n < 2; ++n) {
      const std::vector<Exact> p = exact_softmax(x, n);
      double worst = 0;
      for (Index v = 0; v < x.columns; ++v) {
        worst = std::max(worst, float_ulps(y.at(n, v), p[static_cast<std::size_t>(v)]));
      }
      EXPECT_LE(worst, tolerance::kSoftmaxUlps) << "logits up to " << size;
    }
  }
}

TEST(Softmax, is_accurate_far_from_zero) {
  const Runtime run;
  for (const float offset : {1e3f, -1e5f, 1e6f, -3e6f, 1e30f}) {
    TestMatrix x = TestMatrix::random(1, 301, 6, 0, 4.0f), y(1, 301);
    for (float& v : x.data) v += offset;
    kernels::softmax(run, x.view(), y.view());
    const std::vector<Exact> p = exact_softmax(x, 0);
    for (Index v = 0; v < x.columns; ++v) {
      EXPECT_LE(float_ulps(y.at(0, v), p[static_cast<std::size_t>(v)]), tolerance::kSoftmaxUlps)
          << offset;
    }
  }
}

TEST(CrossEntropy, loss_is_within_1_ulp) {
  const Runtime run;
  for (const Index classes : {1, 2, 3, 15, 16, 17, 65, 256, 50257}) {
    for (const float size : {0.01f, 1.0f, 20.0f, 90.0f}) {
      const TestMatrix x = TestMatrix::random(classes > 1000 ? 2 : 40, classes, 7, 3, size);
      const std::vector<TokenId> targets = some_targets(x);
      const std::vector<double> losses = forward(run, x, targets);
      for (Index n = 0; n < x.rows; ++n) {
        const std::size_t i = static_cast<std::size_t>(n);
        const Exact wanted = exact_loss(x, n, targets[i]);
        int exponent;
        std::frexp(static_cast<double>(wanted), &exponent);
        EXPECT_LE(std::fabs(losses[i] - wanted), std::ldexp(1.0L, std::max(exponent - 24, -149)))
            << classes << " classes, logits up to " << size << ", loss " << losses[i];
      }
    }
  }
}

TEST(CrossEntropy, loss_of_a_confident_row_keeps_its_digits) {
  const Runtime run;
  TestMatrix x = TestMatrix::random(100, 33, 8);
  const std::vector<TokenId> targets = some_targets(x);
  for (Index n = 0; n < x.rows; ++n) x.at(n, targets[static_cast<std::size_t>(n)]) += 0.9f * n;
  const std::vector<double> losses = forward(run, x, targets);
  for (Index n = 0; n < x.rows; ++n) {
    const std::size_t i = static_cast<std::size_t>(n);
    const Exact wanted = exact_loss(x, n, targets[i]);
    EXPECT_NEAR(static_cast<double>(losses[i] / wanted), 1.0, 0x1p-24) << wanted;
  }
}

TEST(CrossEntropy, gradient_is_softmax_minus_one_hot) {
  const Runtime run;
  for (const Index classes : {1, 2, 16, 65, 3001}) {
    const TestMatrix x = TestMatrix::random(6, classes, 9, 2, 3.0f);
    const std::vector<TokenId> targets = some_targets(x);
    TestMatrix gradient = x;
    const double scale = 1.0 / 24;
    const std::vector<double> losses = backward(run, gradient, targets, scale);
    EXPECT_EQ(losses, forward(run, x, targets));
    for (Index n = 0; n < x.rows; ++n) {
      const std::vector<Exact> p = exact_softmax(x, n);
      const TokenId target = targets[static_cast<std::size_t>(n)];
      for (Index v = 0; v < classes; ++v) {
        Exact wanted = p[static_cast<std::size_t>(v)];
        if (v == target) wanted = -(std::accumulate(p.begin(), p.end(), Exact{0}) - wanted);
        if (std::fabs(wanted) < 1e-18L) wanted = 0;  // rounding of the reference's own difference
        EXPECT_LE(float_ulps(gradient.at(n, v), scale * wanted),
                  tolerance::kCrossEntropyGradientUlps)
            << classes << " " << v;
      }
      EXPECT_EQ(gradient.data[static_cast<std::size_t>(n * x.stride + classes)],
                x.data[static_cast<std::size_t>(n * x.stride + classes)])
          << "wrote past the end of a row";
    }
  }
}

TEST(CrossEntropy, ignored_target_has_no_loss_and_no_gradient) {
  const Runtime run;
  TestMatrix x = TestMatrix::random(3, 19, 10);
  x.at(1, 4) = kNan;
  const std::vector<TokenId> targets = {2, kIgnoreTarget, 18};
  EXPECT_EQ(forward(run, x, targets)[1], 0.0);
  EXPECT_EQ(backward(run, x, targets, 0.5)[1], 0.0);
  for (Index v = 0; v < 19; ++v) EXPECT_EQ(x.at(1, v), 0.0f);
  EXPECT_NE(x.at(0, 0), 0.0f);
}

TEST(CrossEntropy, minus_infinity_contributes_exactly_nothing) {
  const Runtime run;
  TestMatrix x = TestMatrix::random(1, 40, 11), without(1, 20);
  std::vector<TokenId> targets = {5};
  for (Index v = 0; v < 20; ++v) {
    without.at(0, v) = x.at(0, v);
    x.at(0, v + 20) = -kInfinity;
  }
  EXPECT_EQ(forward(run, x, targets), forward(run, without, targets));
  backward(run, x, targets, 1.0);
  backward(run, without, targets, 1.0);
  for (Index v = 0; v < 20; ++v) {
    EXPECT_EQ(x.at(0, v), without.at(0, v));
    EXPECT_EQ(x.at(0, v + 20), 0.0f);
  }
  // A target that cannot happen costs infinity; its gradient is still finite.
  TestMatrix impossible = TestMatrix::random(1, 20, 12);
  impossible.at(0, 5) = -kInfinity;
  EXPECT_EQ(backward(run, impossible, targets, 1.0)[0], std::numeric_limits<double>::infinity());
  for (float g : impossible.data) EXPECT_TRUE(std::isfinite(g));
  // All others impossible: certain.
  TestMatrix certain(1, 20);
  certain.data.assign(20, -kInfinity);
  certain.at(0, 5) = -3.0f;
  EXPECT_EQ(backward(run, certain, targets, 1.0)[0], 0.0);
  for (float g : certain.data) EXPECT_EQ(g, 0.0f);
}

TEST(CrossEntropy, non_finite_input_stays_in_its_row) {
  const Runtime run;
  const TestMatrix clean = TestMatrix::random(4, 50, 13);
  const std::vector<TokenId> targets = some_targets(clean);
  TestMatrix wanted = clean;
  const std::vector<double> wanted_losses = backward(run, wanted, targets, 1.0);
  for (const float bad : {kNan, kInfinity}) {
    TestMatrix x = clean;
    x.at(2, 44) = bad;
    const std::vector<double> losses = backward(run, x, targets, 1.0);
    for (Index n = 0; n < 4; ++n) {
      const std::size_t i = static_cast<std::size_t>(n);
      if (n == 2) {
        EXPECT_TRUE(std::isnan(losses[i]));
        EXPECT_TRUE(std::isnan(x.at(n, 0)));
      } else {
        EXPECT_EQ(losses[i], wanted_losses[i]);
        for (Index v = 0; v < 50; ++v) EXPECT_EQ(x.at(n, v), wanted.at(n, v));
      }
    }
  }
}

TEST(CrossEntropy, a_row_with_nothing_possible_is_not_a_number) {
  const Runtime run;
  TestMatrix x(1, 21), y(1, 21, 1);
  x.data.assign(x.data.size(), -kInfinity);
  EXPECT_TRUE(std::isnan(forward(run, x, {3})[0]));
  kernels::softmax(run, x.view(), y.view());
  for (Index v = 0; v < 21; ++v) EXPECT_EQ(y.at(0, v), 0.0f);
}

TEST(CrossEntropy, bits_do_not_depend_on_target_threads_batch_or_stride) {
  for (const Index classes : {1, 5, 16, 33, 2050}) {
    const TestMatrix x = TestMatrix::random(23, classes, 14, 0, 8.0f);
    const std::vector<TokenId> targets = some_targets(x);
    TestMatrix gradient = x, probability = x;
    const std::vector<double> losses = backward(Runtime(), gradient, targets, 0.1);
    kernels::softmax(Runtime(), x.view(), probability.view());
    on_every_runtime([&](const Runtime& run) {
      TestMatrix g(23, classes, 5), p(23, classes, 3);
      for (Index n = 0; n < 23; ++n) {
        std::copy_n(x.view()[n].data(), classes, g.view()[n].data());
      }
      kernels::softmax(run, g.view(), p.view());
      EXPECT_TRUE(same_bits(p, probability)) << classes;
      EXPECT_EQ(backward(run, g, targets, 0.1), losses) << classes;
      EXPECT_TRUE(same_bits(g, gradient)) << classes;
      EXPECT_EQ(forward(run, x, targets), losses) << classes;
      TestMatrix alone(1, classes);
      std::copy_n(x.view()[17].data(), classes, alone.data.data());
      EXPECT_EQ(forward(run, alone, {targets[17]})[0], losses[17]) << classes;
    });
  }
}

// The smoothed loss and gradient of a row in long double.
struct Smoothed {
  long double loss = 0.0L;
  std::vector<long double> gradient;
};
Smoothed smoothed_row(const TestMatrix& x, Index n, TokenId target, long double smoothing) {
  const auto count = static_cast<long double>(x.columns);
  long double largest = -std::numeric_limits<long double>::infinity(), sum = 0.0L;
  for (Index v = 0; v < x.columns; ++v) largest = std::max<long double>(largest, x.at(n, v));
  for (Index v = 0; v < x.columns; ++v) sum += std::exp(x.at(n, v) - largest);
  Smoothed row;
  for (Index v = 0; v < x.columns; ++v) {
    const long double share = smoothing / count + (v == target ? 1.0L - smoothing : 0.0L);
    const long double log_probability = x.at(n, v) - largest - std::log(sum);
    row.loss -= share * log_probability;
    row.gradient.push_back(std::exp(log_probability) - share);
  }
  return row;
}

TEST(CrossEntropy, label_smoothing_is_the_loss_against_the_smoothed_target) {
  for (const Index classes : {1, 7, 16, 333}) {
    const TestMatrix x = TestMatrix::random(9, classes, 21, 0, 6.0f);
    const std::vector<TokenId> targets = some_targets(x);
    const View<const TokenId, 1> ids(targets.data(), {9});
    for (const double smoothing : {0.1, 1.0}) {
      std::vector<double> losses(9), again(9);
      TestMatrix z = x;
      const Runtime run;
      kernels::cross_entropy_forward(run, x.view(), ids, {losses.data(), {9}}, smoothing);
      kernels::cross_entropy_forward_backward(run, z.view(), ids, 1.0, {again.data(), {9}},
                                              smoothing);
      EXPECT_EQ(losses, again);
      for (Index n = 0; n < 9; ++n) {
        const TokenId id = targets[static_cast<std::size_t>(n)];
        if (id == kernels::kIgnoreTarget) continue;
        const Smoothed want = smoothed_row(x, n, id, smoothing);
        const auto loss = static_cast<double>(want.loss);
        EXPECT_NEAR(again[static_cast<std::size_t>(n)], loss,
                    tolerance::kLossRtol * std::max(1.0, loss));
        for (Index v = 0; v < classes; ++v) {
          const auto gradient = static_cast<double>(want.gradient[static_cast<std::size_t>(v)]);
          EXPECT_NEAR(z.at(n, v), gradient, tolerance::kFloatNorm * (0.1 + std::abs(gradient)));
        }
      }
    }
  }
}

TEST(CrossEntropy, an_ignored_target_is_ignored_with_label_smoothing_too) {
  TestMatrix x = TestMatrix::random(1, 20, 3);
  const std::vector<TokenId> targets{kernels::kIgnoreTarget};
  std::vector<double> losses{1.0};
  kernels::cross_entropy_forward_backward(Runtime(), x.view(), {targets.data(), {1}}, 1.0,
                                          {losses.data(), {1}}, 0.5);
  EXPECT_EQ(losses[0], 0.0);
  for (Index v = 0; v < 20; ++v) EXPECT_EQ(x.at(0, v), 0.0f);
}

}  // namespace
}  // namespace prenorm
