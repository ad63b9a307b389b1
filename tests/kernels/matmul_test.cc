#include "prenorm/kernels/matmul.h"

#include <cmath>

#include "prenorm/base/bfloat16.h"
#include "tests/kernels/kernel_test_util.h"

namespace prenorm::kernels {
namespace {

// The contract, element by element: groups of `blocks` block sums of 128, each a chain of fused
// multiply-adds.
float contract(float init, Index k, Index blocks,
               const std::function<std::pair<float, float>(Index)>& factors) {
  float c = init;
  for (Index g0 = 0; g0 < k; g0 += blocks * 128) {
    float group = 0.0f;
    for (Index k0 = g0; k0 < std::min(k, g0 + blocks * 128); k0 += 128) {
      float sum = 0.0f;
      for (Index i = k0; i < std::min(k, k0 + 128); ++i) {
        const auto [a, b] = factors(i);
        sum = std::fma(a, b, sum);
      }
      group = k0 == g0 ? sum : group + sum;
    }
    c = c + group;
  }
  return c;
}

TestMatrix contract_product(const TestMatrix& a, const TestMatrix& b, const float* bias) {
  TestMatrix c(a.rows, b.columns);
  for (Index m = 0; m < a.rows; ++m) {
    for (Index n = 0; n < b.columns; ++n) {
      c.at(m, n) = contract(bias == nullptr ? 0.0f : bias[n], a.columns, 16,
                            [&](Index k) { return std::pair(a.at(m, k), b.at(k, n)); });
    }
  }
  return c;
}

struct Shape {
  Index m, k, n;
};
const Shape kShapes[] = {{1, 1, 1},      {1, 768, 65},  {7, 3, 17},     {8, 256, 48},
                         {37, 300, 65},  {13, 257, 1},  {130, 64, 200}, {3, 1600, 50},
                         {97, 513, 33},  {2, 4000, 19}, {5, 2049, 20},  {9, 6200, 50},
                         {601, 300, 98}, {530, 2100, 7}};

TEST(Matmul, follows_the_contract_to_the_bit_on_every_target_and_thread_count) {
  for (const Shape& s : kShapes) {
    SCOPED_TRACE("m " + std::to_string(s.m) + " k " + std::to_string(s.k) + " n " +
                 std::to_string(s.n));
    const TestMatrix a = TestMatrix::random(s.m, s.k, 1, 5), b = TestMatrix::random(s.k, s.n, 2, 3);
    const TestMatrix bt = transposed(b, 7);
    const TestMatrix bias = TestMatrix::random(1, s.n, 3);
    const TestMatrix plain = contract_product(a, b, nullptr);
    const TestMatrix biased = contract_product(a, b, bias.data.data());
    on_every_runtime([&](const Runtime& run) {
      const PackedMatrix packed(run, Right::plain(b.view()));
      const PackedMatrix packed_t(run, Right::transposed(bt.view()));
      Epilogue with_bias;
      with_bias.bias = bias.view()[0];
      for (const Right& right : {Right::plain(b.view()), Right::transposed(bt.view()),
                                 Right::panels(packed), Right::panels(packed_t)}) {
        TestMatrix c(s.m, s.n, 2);
        matmul(run, a.view(), right, c.view(), {});
        EXPECT_TRUE(same_bits(c, plain));
        matmul(run, a.view(), right, c.view(), with_bias);
        EXPECT_TRUE(same_bits(c, biased));
      }
    });
  }
}

TEST(Matmul, weights_in_bfloat16_give_the_bits_of_the_rounded_weights) {
  for (const Shape& s : {Shape{1, 300, 65}, {7, 2100, 50}, {130, 257, 49}, {600, 64, 33}}) {
    const TestMatrix a = TestMatrix::random(s.m, s.k, 1), b = TestMatrix::random(s.k, s.n, 2);
    TestMatrix rounded = b;
    for (float& x : rounded.data) x = float_from_bf16(bf16_from_float(x));
    const TestMatrix expected = contract_product(a, rounded, nullptr);
    on_every_runtime([&](const Runtime& run) {
      const PackedMatrix packed(run, Right::plain(b.view()), WeightFormat::kBfloat16);
      EXPECT_EQ(packed.format(), WeightFormat::kBfloat16);
      TestMatrix c(s.m, s.n, 2);
      matmul(run, a.view(), Right::panels(packed), c.view(), {});
      EXPECT_TRUE(same_bits(c, expected)) << s.m << " " << s.k << " " << s.n;
    });
  }
}

TEST(Matmul, rounding_to_bfloat16_is_to_nearest_even_and_is_recognised) {
  std::vector<float> numbers = {1.0f, 1.00390625f, 1.01171875f, -3.1415927f, 0.0f};
  EXPECT_FALSE(are_bfloat16(numbers));
  round_to_bfloat16(Runtime(), numbers);
  EXPECT_EQ(numbers, (std::vector<float>{1.0f, 1.0f, 1.015625f, -3.140625f, 0.0f}));
  EXPECT_TRUE(are_bfloat16(numbers));
}

TEST(Matmul, adds_the_residual_after_the_sum) {
  const TestMatrix a = TestMatrix::random(19, 300, 1), b = TestMatrix::random(300, 53, 2);
  const TestMatrix residual = TestMatrix::random(19, 53, 3, 4);
  TestMatrix expected = contract_product(a, b, nullptr);
  for (Index m = 0; m < 19; ++m) {
    for (Index n = 0; n < 53; ++n) expected.at(m, n) = residual.at(m, n) + expected.at(m, n);
  }
  on_every_runtime([&](const Runtime& run) {
    TestMatrix c(19, 53);
    Epilogue e;
    e.residual = residual.view();
    matmul(run, a.view(), Right::plain(b.view()), c.view(), e);
    EXPECT_TRUE(same_bits(c, expected));
  });
}

TEST(Matmul, fused_activations_equal_the_separate_kernels) {
  const TestMatrix a = TestMatrix::random(21, 70, 1), b = TestMatrix::random(70, 53, 2);
  const TestMatrix input = TestMatrix::random(21, 53, 4, 1, 4.0f);
  for (Activation act : {Activation::kRelu, Activation::kGelu, Activation::kGeluTanh}) {
    on_every_runtime([&](const Runtime& run) {
      const TestMatrix sum = contract_product(a, b, nullptr);
      TestMatrix c(21, 53), activated(21, 53, 3), expected(21, 53);
      Epilogue forward;
      forward.activated = activated.view();
      forward.activation = act;
      matmul(run, a.view(), Right::plain(b.view()), c.view(), forward);
      activation_forward(run, act, sum.view(), expected.view());
      EXPECT_TRUE(same_bits(c, sum));
      EXPECT_TRUE(same_bits(activated, expected));

      Epilogue backward;
      backward.activation_input = input.view();
      backward.activation = act;
      matmul(run, a.view(), Right::plain(b.view()), c.view(), backward);
      activation_backward(run, act, sum.view(), input.view(), expected.view());
      EXPECT_TRUE(same_bits(c, expected));

      Epilogue both = backward;  // both at once: the gradient, and the activation made again
      both.activated = activated.view();
      matmul(run, a.view(), Right::plain(b.view()), c.view(), both);
      EXPECT_TRUE(same_bits(c, expected));
      activation_forward(run, act, input.view(), expected.view());
      EXPECT_TRUE(same_bits(activated, expected));
    });
  }
}

TEST(Matmul, a_row_alone_has_the_bits_it_has_in_a_batch) {
  const TestMatrix a = TestMatrix::random(64, 500, 1), b = TestMatrix::random(500, 130, 2);
  on_every_runtime([&](const Runtime& run) {
    TestMatrix all(64, 130);
    matmul(run, a.view(), Right::plain(b.view()), all.view(), {});
    for (Index m : {0, 5, 63}) {
      TestMatrix one(1, 130);
      matmul(run, a.view().rows(m, 1), Right::plain(b.view()), one.view(), {});
      EXPECT_EQ(0, std::memcmp(one.data.data(), all.view()[m].data(), 130 * sizeof(float)));
    }
  });
}

TEST(Matmul, the_weight_gradient_follows_the_contract_and_splits_at_multiples_of_128) {
  for (const Shape& s : {Shape{33, 768, 65},
                         {1, 5, 1},
                         {200, 1025, 49},
                         {97, 512, 130},
                         {40, 2100, 50},
                         {600, 1100, 21}}) {
    const TestMatrix x = TestMatrix::random(s.k, s.m, 1, 2), dy = TestMatrix::random(s.k, s.n, 2);
    const TestMatrix start = TestMatrix::random(s.m, s.n, 3);
    TestMatrix expected(s.m, s.n);
    for (Index m = 0; m < s.m; ++m) {
      for (Index n = 0; n < s.n; ++n) {
        expected.at(m, n) = contract(start.at(m, n), s.k, 1,
                                     [&](Index k) { return std::pair(x.at(k, m), dy.at(k, n)); });
      }
    }
    on_every_runtime([&](const Runtime& run) {
      TestMatrix whole = start, split = start;
      matmul_transposed_accumulate(run, x.view(), dy.view(), whole.view());
      EXPECT_TRUE(same_bits(whole, expected));
      const Index half = std::min<Index>(s.k, 128);
      matmul_transposed_accumulate(run, x.view().rows(0, half), dy.view().rows(0, half),
                                   split.view());
      if (half < s.k) {
        matmul_transposed_accumulate(run, x.view().rows(half, s.k - half),
                                     dy.view().rows(half, s.k - half), split.view());
      }
      EXPECT_TRUE(same_bits(split, expected));
    });
  }
}

TEST(Matmul, column_sums_are_blocks_of_256_rows_in_double_added_to_what_is_there) {
  const TestMatrix x = TestMatrix::random(700, 83, 1, 3), start = TestMatrix::random(1, 83, 2);
  TestMatrix expected = start;
  for (Index n = 0; n < 83; ++n) {
    for (Index m0 = 0; m0 < 700; m0 += 256) {
      double sum = 0.0;
      for (Index m = m0; m < std::min<Index>(700, m0 + 256); ++m) sum += x.at(m, n);
      expected.at(0, n) = static_cast<float>(expected.at(0, n) + sum);
    }
  }
  on_every_runtime([&](const Runtime& run) {
    TestMatrix sums = start;
    add_column_sums(run, x.view(), sums.view()[0]);
    EXPECT_TRUE(same_bits(sums, expected));
  });
}

TEST(Matmul, the_weight_gradient_sums_columns_on_the_way_as_they_are_summed_alone) {
  for (const Shape& s : {Shape{33, 700, 83},
                         {8, 128, 16},
                         {130, 257, 48},
                         {5, 1, 3},
                         {600, 1100, 200},
                         {300, 512, 1}}) {
    const TestMatrix a = TestMatrix::random(s.k, s.m, 1), b = TestMatrix::random(s.k, s.n, 2, 3);
    const TestMatrix start = TestMatrix::random(1, s.n, 3);
    on_every_runtime([&](const Runtime& run) {
      TestMatrix c(s.m, s.n), with_sums(s.m, s.n), sums = start, expected = start;
      matmul_transposed_accumulate(run, a.view(), b.view(), c.view());
      add_column_sums(run, b.view(), expected.view()[0]);
      matmul_transposed_accumulate(run, a.view(), b.view(), with_sums.view(), sums.view()[0]);
      EXPECT_TRUE(same_bits(with_sums, c));
      EXPECT_TRUE(same_bits(sums, expected));
    });
  }
}

TEST(Matmul, no_rows_give_nothing_and_add_nothing_to_a_gradient) {
  const Runtime run(Runtime::Options{.threads = 2});
  const TestMatrix none(0, 3), other(0, 5), b = TestMatrix::random(3, 5, 1);
  TestMatrix no_product(0, 5), c = TestMatrix::random(3, 5, 2);
  const TestMatrix before = c;
  kernels::matmul(run, none.view(), kernels::Right::plain(b.view()), no_product.view(), {});
  kernels::matmul_transposed_accumulate(run, none.view(), other.view(), c.view());
  EXPECT_TRUE(same_bits(c, before));
  Vector sums(c.data.data(), {5});
  kernels::add_column_sums(run, other.view(), sums);
  EXPECT_TRUE(same_bits(c, before));
}

}  // namespace
}  // namespace prenorm::kernels
