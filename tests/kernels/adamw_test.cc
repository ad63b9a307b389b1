#include "prenorm/kernels/adamw.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "tests/kernels/kernel_test_util.h"
#include "tests/kernels/rows_testing.h"

namespace prenorm::kernels {
namespace {

using namespace rows_testing;  // NOLINT

using Five = std::array<float, 5>;

struct Recorded {
  double learning_rate, beta2, eps, weight_decay;
  Index steps_before;
  Five first_moment, second_moment;  // before
  Five value_after, first_after, second_after;
};

constexpr Five kValue = {0.5f, -1.25f, 3.0f, 0.0078125f, -0.375f};
constexpr std::array<Five, 3> kGrads = {Five{0.125f, -2.0f, 0.0009765625f, 0.0f, 1024.0f},
                                        Five{0.25f, 1.0f, -0.0009765625f, 0.0f, -512.0f},
                                        Five{-0.0625f, 0.5f, 0.001953125f, 0.0f, 3.0f}};

// torch.optim.AdamW of PyTorch 2.13, foreach=False, β1 = 0.9, after the three gradients.
const std::array<Recorded, 3> kRecorded = {
    Recorded{1e-3,
             0.999,
             1e-8,
             0.0,
             0,
             {},
             {},
             {0x1.fd628cp-2f, -0x1.3fa8fcp+0f, 0x1.7fd0a2p+1f, 0x1p-7f, -0x1.81825ep-2f},
             {0x1.b020c4p-6f, -0x1.6872bp-6f, 0x1.872b02p-13f, 0.0f, 0x1.294fdep+5f},
             {0x1.57abbep-14f, 0x1.577976p-8f, 0x1.8904fcp-28f, 0.0f, 0x1.4717bcp+10f}},
    Recorded{1e-3,
             0.99,
             1e-8,
             0.1,
             0,
             {},
             {},
             {0x1.fd3b8cp-2f, -0x1.3f9062p+0f, 0x1.7fb33p+1f, 0x1.ffd8acp-8f, -0x1.81651ep-2f},
             {0x1.b020c4p-6f, -0x1.6872bp-6f, 0x1.872b02p-13f, 0.0f, 0x1.294fdep+5f},
             {0x1.a92c4ap-11f, 0x1.a6bd6ep-5f, 0x1.e91212p-25f, 0.0f, 0x1.924344p+13f}},
    Recorded{6e-4,
             0.95,
             1e-5,
             0.1,
             999,
             {0.1f, -0.2f, 0.0f, 0.001f, 3.0f},
             {0.02f, 0.5f, 1e-6f, 1e-8f, 100.0f},
             {0x1.fe8d8ap-2f, -0x1.3fcb9p+0f, 0x1.7fe92ep+1f, -0x1.90147ep-8f, -0x1.806ae8p-2f},
             {0x1.96a162p-4f, -0x1.57a786p-3f, 0x1.872b02p-13f, 0x1.7e34bap-11f, 0x1.3aced8p+5f},
             {0x1.58562ep-6f, 0x1.569fbep-1f, 0x1.310fd4p-20f, 0x1.26978p-27f, 0x1.d39e08p+15f}}};

struct State {
  std::vector<float> value, grad, first, second;
  explicit State(std::size_t n) : value(n), grad(n), first(n), second(n) {}
  void step(const Runtime& run, const AdamWStep& step) {
    adamw(run, step, {value, grad, first, second});
  }
  bool same_bits(const State& o) const {
    return rows_testing::same_bits(value, o.value) && rows_testing::same_bits(grad, o.grad) &&
           rows_testing::same_bits(first, o.first) && rows_testing::same_bits(second, o.second);
  }
};

TEST(AdamW, follows_the_steps_of_pytorch) {
  const Runtime run;
  for (const Recorded& recorded : kRecorded) {
    State s(5);
    s.value.assign(kValue.begin(), kValue.end());
    s.first.assign(recorded.first_moment.begin(), recorded.first_moment.end());
    s.second.assign(recorded.second_moment.begin(), recorded.second_moment.end());
    Index t = recorded.steps_before;
    for (const Five& grad : kGrads) {
      s.grad.assign(grad.begin(), grad.end());
      s.step(run, {.learning_rate = recorded.learning_rate,
                   .beta2 = recorded.beta2,
                   .eps = recorded.eps,
                   .weight_decay = recorded.weight_decay,
                   .step = ++t});
    }
    for (std::size_t i = 0; i < 5; ++i) {
      // Two roundings a step may differ (fused multiply-adds).
      EXPECT_LE(ulps(s.value[i], recorded.value_after[i]), 2) << i;
      EXPECT_LE(ulps(s.first[i], recorded.first_after[i]), 4) << i;
      EXPECT_LE(ulps(s.second[i], recorded.second_after[i]), 4) << i;
      EXPECT_EQ(s.grad[i], 0.0f);
    }
  }
}

TEST(AdamW, scales_the_gradient_before_anything_else) {
  const Runtime run;
  State clipped(100), plain(100);
  clipped.value = plain.value = normal_vector(100, 1);
  clipped.grad = normal_vector(100, 2);
  for (std::size_t i = 0; i < 100; ++i) plain.grad[i] = 0.3f * clipped.grad[i];
  clipped.step(run, {.grad_scale = 0.3f});
  plain.step(run, {});
  EXPECT_TRUE(clipped.same_bits(plain));
}

TEST(AdamW, with_a_rate_of_zero_changes_no_value) {
  const Runtime run;
  State s(33);
  const auto value = normal_vector(33, 3);
  s.value = value;
  s.grad = normal_vector(33, 4);
  s.step(run, {.learning_rate = 0.0, .weight_decay = 0.1});
  EXPECT_TRUE(same_bits(s.value, value));
  EXPECT_NE(s.first[0], 0.0f);
}

TEST(AdamW, gives_the_same_bits_on_every_isa_and_thread_count) {
  for (const std::size_t n : {std::size_t{1}, std::size_t{15}, std::size_t{16}, std::size_t{17},
                              std::size_t{100}, std::size_t{50001}}) {
    State start(n);
    const auto count = static_cast<Index>(n);
    start.value = normal_vector(count, 5);
    start.first = normal_vector(count, 6);
    start.second = normal_vector(count, 7);
    for (float& v : start.second) v *= v;
    start.grad = normal_vector(count, 8);
    const AdamWStep step = {.weight_decay = 0.1, .step = 12, .grad_scale = 0.7};
    State expected = start;
    expected.step(Runtime({.threads = 1, .isa = "auto"}), step);
    on_every_runtime([&](const Runtime& run) {
      State s = start;
      s.step(run, step);
      EXPECT_TRUE(s.same_bits(expected)) << n;
    });
  }
}

TEST(SumOfSquares, is_exact_where_double_is) {
  const Runtime run;
  std::vector<float> x(200001);
  double expected = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(static_cast<int>(i % 1001) - 500);
    expected += static_cast<double>(x[i]) * x[i];
  }
  EXPECT_EQ(sum_of_squares(run, x), expected);
  EXPECT_EQ(sum_of_squares(run, {}), 0.0);
  EXPECT_EQ(sum_of_squares(run, std::vector<float>{3e38f, -3e38f}), 2.0 * 3e38f * 3e38f);
}

TEST(SumOfSquares, gives_the_same_bits_on_every_isa_and_thread_count) {
  for (const Index n : {1, 15, 16, 17, 65536, 65537, 300001}) {
    const auto x = normal_vector(n, 9);
    const double expected = sum_of_squares(Runtime({.threads = 1, .isa = "auto"}), x);
    on_every_runtime([&](const Runtime& run) { EXPECT_EQ(sum_of_squares(run, x), expected) << n; });
  }
}

}  // namespace
}  // namespace prenorm::kernels
