#include "prenorm/kernels/matmul_bf16.h"

#include <bit>
#include <cmath>
#include <iostream>
#include <random>

#include "prenorm/base/bfloat16.h"
#include "prenorm/kernels/bf16_target.h"
#include "tests/kernels/kernel_test_util.h"

namespace prenorm::kernels {
namespace {

constexpr Products kOrders[] = {Products::kBfloat16Dot, Products::kBfloat16Tile};

float floor_of(Bf16Role role) {
  return role == Bf16Role::kValue ? kBf16ValueFloor : kBf16GradientFloor;
}
float rounded(float x, Bf16Role role) {
  return std::abs(x) < floor_of(role) ? 0.0f : float_from_bf16(bf16_from_float(x));
}

// The contract, element by element, of factors that are rounded already.
float chain(Products products, float sum, Index k,
            const std::function<std::pair<float, float>(Index)>& factors) {
  const auto at = [&](Index i) { return i < k ? factors(i) : std::pair(0.0f, 0.0f); };
  if (products == Products::kBfloat16Dot) {
    for (Index i = 0; i < k; i += 2) {
      for (const auto& [a, b] : {at(i + 1), at(i)}) sum = std::fma(a, b, sum);
    }
    return sum;
  }
  for (Index i = 0; i < k; i += 32) {
    float even = 0.0f, odd = 0.0f;
    for (Index j = i; j < i + 32; j += 2) {
      even = std::fma(at(j).first, at(j).second, even);
      odd = std::fma(at(j + 1).first, at(j + 1).second, odd);
    }
    sum = sum + (even + odd);
  }
  return sum;
}

TestMatrix rounded(const TestMatrix& x, Bf16Role role) {
  TestMatrix r = x;
  for (float& v : r.data) v = rounded(v, role);
  return r;
}

// a b with a bias, of a [M, K] and b [K, N].
TestMatrix contract(Products products, const TestMatrix& a, Bf16Role a_role, const TestMatrix& b,
                    Bf16Role b_role, const float* bias) {
  const TestMatrix x = rounded(a, a_role), y = rounded(b, b_role);
  TestMatrix c(a.rows, b.columns);
  for (Index m = 0; m < a.rows; ++m) {
    for (Index n = 0; n < b.columns; ++n) {
      const float sum = chain(products, 0.0f, a.columns,
                              [&](Index k) { return std::pair(x.at(m, k), y.at(k, n)); });
      c.at(m, n) = bias == nullptr ? sum : bias[n] + sum;
    }
  }
  return c;
}

struct Shape {
  Index m, k, n;
};
const Shape kShapes[] = {{1, 1, 1},     {1, 768, 65},   {7, 3, 17},    {32, 32, 32},
                         {37, 300, 65}, {13, 257, 1},   {3, 1600, 50}, {97, 513, 33},
                         {2, 1025, 19}, {64, 1024, 96}, {300, 70, 98}, {530, 33, 7}};

TEST(MatmulBf16, follows_the_contract_to_the_bit_on_every_target_and_thread_count) {
  for (const Shape& s : kShapes) {
    SCOPED_TRACE("m " + std::to_string(s.m) + " k " + std::to_string(s.k) + " n " +
                 std::to_string(s.n));
    const TestMatrix a = TestMatrix::random(s.m, s.k, 1, 5), b = TestMatrix::random(s.k, s.n, 2, 3);
    const TestMatrix bt = transposed(b, 7), bias = TestMatrix::random(1, s.n, 3);
    for (Products products : kOrders) {
      const auto value = Bf16Role::kValue;
      const TestMatrix plain = contract(products, a, value, b, value, nullptr);
      const TestMatrix biased = contract(products, a, value, b, value, bias.data.data());
      on_every_runtime([&](const Runtime& run) {
        Epilogue with_bias;
        with_bias.bias = bias.view()[0];
        for (const Right& right : {Right::plain(b.view()), Right::transposed(bt.view())}) {
          TestMatrix c(s.m, s.n, 2);
          matmul_bf16(run, products, {a.view(), value}, right, value, c.view(), {});
          EXPECT_TRUE(same_bits(c, plain));
          matmul_bf16(run, products, {a.view(), value}, right, value, c.view(), with_bias);
          EXPECT_TRUE(same_bits(c, biased));
        }
      });
    }
  }
}

// Numbers of all sizes down to far below the floors, so that products of what is kept come near the
// smallest float.
TestMatrix of_all_sizes(Index rows, Index columns, unsigned seed, int smallest) {
  TestMatrix x(rows, columns);
  std::mt19937 generator(seed);
  std::uniform_int_distribution<int> exponent(smallest, 3);
  std::uniform_real_distribution<float> u(-2.0f, 2.0f);
  for (float& v : x.data) v = std::ldexp(u(generator), exponent(generator));
  return x;
}

TEST(MatmulBf16, small_numbers_count_as_zero_and_no_denormal_number_arises) {
  const TestMatrix a = of_all_sizes(40, 200, 1, -85), b = of_all_sizes(200, 50, 2, -50);
  TestMatrix least(40, 200), least_b(200, 50);
  using Factors = std::pair<const TestMatrix*, const TestMatrix*>;
  for (float& x : least.data) x = -1.5f * kBf16GradientFloor;
  for (float& x : least_b.data) x = kBf16ValueFloor;
  for (Products products : kOrders) {
    for (const Factors& factors : {Factors(&a, &b), Factors(&least, &least_b)}) {
      const TestMatrix *x = factors.first, *y = factors.second;
      const TestMatrix expected =
          contract(products, *x, Bf16Role::kGradient, *y, Bf16Role::kValue, nullptr);
      for (const float sum : expected.data) {
        ASSERT_TRUE(sum == 0.0f || std::abs(sum) >= 0x1p-124f) << sum;
      }
      on_every_runtime([&](const Runtime& run) {
        TestMatrix c(40, 50);
        matmul_bf16(run, products, {x->view(), Bf16Role::kGradient}, Right::plain(y->view()),
                    Bf16Role::kValue, c.view(), {});
        EXPECT_TRUE(same_bits(c, expected));
      });
    }
  }
  EXPECT_NE(rounded(kBf16GradientFloor, Bf16Role::kGradient), 0.0f);
  EXPECT_EQ(rounded(std::nextafter(kBf16GradientFloor, 0.0f), Bf16Role::kGradient), 0.0f);
}

TEST(MatmulBf16, numbers_that_are_not_finite_stay_in_their_rows_and_columns) {
  TestMatrix a = TestMatrix::random(37, 70, 1), b = TestMatrix::random(70, 45, 2);
  const float infinity = HUGE_VALF, nan = std::nanf("");
  const float payload = std::bit_cast<float>(0x7f800001u);  // rounded, it would be infinity
  a.at(3, 5) = nan;
  a.at(4, 6) = payload;
  a.at(9, 1) = infinity;
  b.at(2, 40) = -infinity;
  a.at(20, 3) = 3.4e38f;  // infinity as bfloat16
  for (Products products : kOrders) {
    const TestMatrix expected =
        contract(products, a, Bf16Role::kValue, b, Bf16Role::kValue, nullptr);
    on_every_runtime([&](const Runtime& run) {
      TestMatrix c(37, 45);
      matmul_bf16(run, products, {a.view(), Bf16Role::kValue}, Right::plain(b.view()),
                  Bf16Role::kValue, c.view(), {});
      for (Index m = 0; m < 37; ++m) {
        for (Index n = 0; n < 45; ++n) {
          const float got = c.at(m, n), want = expected.at(m, n);
          ASSERT_TRUE(std::isnan(want) ? std::isnan(got) : got == want) << m << " " << n;
        }
        ASSERT_EQ(std::isnan(c.at(m, 0)), m == 3 || m == 4);
      }
    });
  }
}

TEST(MatmulBf16, epilogues_are_those_of_the_products_in_float32) {
  const TestMatrix a = TestMatrix::random(45, 70, 1), b = TestMatrix::random(70, 53, 2);
  const TestMatrix input = TestMatrix::random(45, 53, 4, 1, 4.0f);
  const TestMatrix bias = TestMatrix::random(1, 53, 3);
  for (Products products : kOrders) {
    const TestMatrix sum =
        contract(products, a, Bf16Role::kValue, b, Bf16Role::kValue, bias.data.data());
    const auto multiply = [&](const Runtime& run, Epilogue e) {
      TestMatrix c(45, 53, 2);
      e.bias = bias.view()[0];
      matmul_bf16(run, products, {a.view(), Bf16Role::kValue}, Right::plain(b.view()),
                  Bf16Role::kValue, c.view(), e);
      return c;
    };
    TestMatrix added(45, 53);
    for (Index m = 0; m < 45; ++m) {
      for (Index n = 0; n < 53; ++n) added.at(m, n) = input.at(m, n) + sum.at(m, n);
    }
    on_every_runtime([&](const Runtime& run) {
      Epilogue residual;
      residual.residual = input.view();
      EXPECT_TRUE(same_bits(multiply(run, residual), added));
      for (Activation act : {Activation::kRelu, Activation::kGelu, Activation::kGeluTanh}) {
        TestMatrix activated(45, 53, 3), expected(45, 53);
        Epilogue forward;
        forward.activated = activated.view();
        forward.activation = act;
        EXPECT_TRUE(same_bits(multiply(run, forward), sum));
        activation_forward(run, act, sum.view(), expected.view());
        EXPECT_TRUE(same_bits(activated, expected));
        Epilogue backward;
        backward.activation_input = input.view();
        backward.activation = act;
        activation_backward(run, act, sum.view(), input.view(), expected.view());
        EXPECT_TRUE(same_bits(multiply(run, backward), expected));
      }
    });
  }
}

TEST(MatmulBf16, the_weight_gradient_goes_on_from_what_c_holds_and_splits_at_multiples_of_32) {
  for (const Shape& s : {Shape{33, 768, 65}, {1, 5, 1}, {70, 1055, 49}, {97, 512, 130}}) {
    const TestMatrix x = TestMatrix::random(s.k, s.m, 1, 2), dy = TestMatrix::random(s.k, s.n, 2);
    const TestMatrix a = rounded(x, Bf16Role::kValue), b = rounded(dy, Bf16Role::kGradient);
    const TestMatrix start = TestMatrix::random(s.m, s.n, 3);
    for (Products products : kOrders) {
      TestMatrix expected(s.m, s.n);
      for (Index m = 0; m < s.m; ++m) {
        for (Index n = 0; n < s.n; ++n) {
          expected.at(m, n) = chain(products, start.at(m, n), s.k,
                                    [&](Index k) { return std::pair(a.at(k, m), b.at(k, n)); });
        }
      }
      on_every_runtime([&](const Runtime& run) {
        const auto add = [&](TestMatrix& c, Index first, Index count) {
          matmul_transposed_accumulate_bf16(
              run, products, {x.view().rows(first, count), Bf16Role::kValue},
              {dy.view().rows(first, count), Bf16Role::kGradient}, c.view());
        };
        TestMatrix whole = start, split = start;
        add(whole, 0, s.k);
        EXPECT_TRUE(same_bits(whole, expected));
        const Index first = std::min<Index>(s.k, 96);
        add(split, 0, first);
        add(split, first, s.k - first);
        EXPECT_TRUE(same_bits(split, expected));
      });
    }
  }
}

TEST(MatmulBf16, rows_rounded_by_an_epilogue_give_the_bits_of_the_activated_floats) {
  constexpr auto kValue = Bf16Role::kValue;
  for (const Shape& s : {Shape{45, 70, 53}, {32, 33, 64}, {600, 40, 90}}) {
    const TestMatrix a = TestMatrix::random(s.m, s.k, 1), b = TestMatrix::random(s.k, s.n, 2);
    const TestMatrix bias = TestMatrix::random(1, s.n, 3), next = TestMatrix::random(s.n, 41, 4);
    const TestMatrix dy = TestMatrix::random(s.m, 41, 5);
    const Buffer memory(static_cast<std::size_t>(Bf16Rows::elements(s.m, s.n)) * 2);
    const Bf16Rows rows{reinterpret_cast<std::uint16_t*>(memory.bytes().data()), s.m, s.n};
    for (Products products : kOrders) {
      for (Activation act : {Activation::kRelu, Activation::kGelu, Activation::kGeluTanh}) {
        on_every_runtime([&](const Runtime& run) {
          std::ranges::fill(memory.floats(), std::nanf(""));  // padding is written too
          TestMatrix c(s.m, s.n), hidden(s.m, s.n, 1), activated(s.m, s.n);
          Bf16Epilogue e;
          e.bias = bias.view()[0];
          e.activation = act;
          e.activated = activated.view();
          matmul_bf16(run, products, {a.view()}, Right::plain(b.view()), kValue, c.view(), e);
          e.activated = Matrix();
          e.rounded = rows;
          matmul_bf16(run, products, {a.view()}, Right::plain(b.view()), kValue, hidden.view(), e);
          EXPECT_TRUE(same_bits(hidden, c));
          TestMatrix y(s.m, 41), want_y(s.m, 41), dweight(s.n, 41), want_dweight(s.n, 41);
          const Bf16Operand floats{activated.view()}, rounded{{}, kValue, rows};
          const auto multiply = [&](const Bf16Operand& x, TestMatrix& product,
                                    TestMatrix& gradient) {
            matmul_bf16(run, products, x, Right::plain(next.view()), kValue, product.view(), {});
            matmul_transposed_accumulate_bf16(run, products, x, {dy.view(), Bf16Role::kGradient},
                                              gradient.view());
          };
          multiply(floats, want_y, want_dweight);
          multiply(rounded, y, dweight);
          EXPECT_TRUE(same_bits(y, want_y));
          EXPECT_TRUE(same_bits(dweight, want_dweight));
        });
      }
    }
  }
}

TEST(MatmulBf16, panels_that_are_kept_give_the_same_bits) {
  const TestMatrix a = TestMatrix::random(50, 90, 1), b = TestMatrix::random(90, 70, 2);
  for (Products products : kOrders) {
    on_every_runtime([&](const Runtime& run) {
      const Buffer memory(static_cast<std::size_t>(Bf16Panels::elements(90, 70)) * 2);
      const Bf16Panels panels{reinterpret_cast<std::uint16_t*>(memory.bytes().data()), 90, 70};
      pack_panels(run, Right::plain(b.view()), Bf16Role::kValue, panels);
      TestMatrix kept(50, 70), packed(50, 70);
      matmul_bf16(run, products, {a.view(), Bf16Role::kValue}, panels, kept.view(), {});
      matmul_bf16(run, products, {a.view(), Bf16Role::kValue}, Right::plain(b.view()),
                  Bf16Role::kValue, packed.view(), {});
      EXPECT_TRUE(same_bits(kept, packed));
    });
  }
}

TEST(MatmulBf16, every_unit_computes_the_block_that_the_contract_says) {
  constexpr Index kDepth = 96, kRow = 100, kStride = 37;
  const TestMatrix x = rounded(TestMatrix::random(32, kDepth, 1), Bf16Role::kValue);
  const TestMatrix y = rounded(TestMatrix::random(kDepth, 32, 2), Bf16Role::kValue);
  const TestMatrix start = TestMatrix::random(32, kStride, 3);
  std::vector<std::uint16_t> left(32 * kRow), right(kDepth * 32 + 32);
  auto* panels = right.data() + 32 - reinterpret_cast<std::uintptr_t>(right.data()) / 2 % 32;
  for (Index i = 0; i < 32; ++i) {
    for (Index k = 0; k < kDepth; ++k) {
      left[static_cast<std::size_t>(i * kRow + k)] = bf16_from_float(x.at(i, k));
      panels[i / 16 * 16 * kDepth + k / 2 * 32 + i % 16 * 2 + k % 2] = bf16_from_float(y.at(k, i));
    }
  }
  int units = 0;
  for (Isa isa : supported_isas()) {
    for (Products products : kOrders) {
      for (Bf16Unit unit :
           {Bf16Unit::kFusedMultiplyAdd, Bf16Unit::kDotProduct, Bf16Unit::kMatrix}) {
        if (unit != Bf16Unit::kFusedMultiplyAdd && unit != bf16_unit(isa, products)) continue;
        const Bf16Kernel& kernel = bf16_kernel(isa, products, unit);
        std::cout << isa_name(isa) << ", " << to_string(products) << " by " << bf16_unit_name(unit)
                  << "\n";
        ++units;
        for (const bool goes_on : {false, true}) {
          TestMatrix sums(32, kStride);
          kernel.begin();
          kernel.block({left.data(), kRow, panels, kDepth * 16, kDepth,
                        goes_on ? start.data.data() : nullptr, kStride, sums.data.data(), kStride});
          kernel.end();
          for (Index m = 0; m < 32; ++m) {
            for (Index n = 0; n < 32; ++n) {
              const float want = chain(products, goes_on ? start.at(m, n) : 0.0f, kDepth,
                                       [&](Index k) { return std::pair(x.at(m, k), y.at(k, n)); });
              ASSERT_EQ(sums.at(m, n), want) << m << " " << n;
            }
          }
        }
      }
    }
  }
  EXPECT_GE(units, 2);
}

TEST(MatmulBf16, no_rows_give_nothing_and_a_sum_of_nothing_is_the_bias) {
  const Runtime run(Runtime::Options{.threads = 2});
  const TestMatrix none(0, 3), b = TestMatrix::random(3, 5, 1), thin(4, 0), flat(0, 5);
  TestMatrix nothing(0, 5), c = TestMatrix::random(4, 5, 2), gradient = TestMatrix::random(3, 5, 3);
  const TestMatrix before = gradient, bias = TestMatrix::random(1, 5, 4);
  const auto value = Bf16Role::kValue;
  Epilogue with_bias;
  with_bias.bias = bias.view()[0];
  for (Products products : kOrders) {
    matmul_bf16(run, products, {none.view(), value}, Right::plain(b.view()), value, nothing.view(),
                {});
    matmul_transposed_accumulate_bf16(run, products, {none.view(), value}, {flat.view(), value},
                                      gradient.view());
    EXPECT_TRUE(same_bits(gradient, before));
    matmul_bf16(run, products, {thin.view(), value}, Right::plain(flat.view()), value, c.view(),
                with_bias);
    for (Index n = 0; n < 5; ++n) EXPECT_EQ(c.at(3, n), bias.at(0, n));
  }
}

TEST(MatmulBf16, the_peak_is_a_positive_rate) {
  const Runtime run(Runtime::Options{.threads = 1});
  for (Products products : kOrders) EXPECT_GT(measure_bf16_peak(run, products, 0.005), 0.0);
}

}  // namespace
}  // namespace prenorm::kernels
