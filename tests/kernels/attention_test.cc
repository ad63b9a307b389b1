#include "prenorm/kernels/attention.h"

#include <cmath>
#include <limits>

#include "tests/kernels/kernel_test_util.h"
#include "tests/tolerances.h"

namespace prenorm::kernels {
namespace {

struct Case {
  Index batch, time, heads, head_width;
  bool causal = true;
  double dropout = 0.0;
};
const Case kCases[] = {
    {1, 1, 1, 1},    {2, 5, 3, 7},           {1, 64, 2, 16},  {2, 65, 1, 32},
    {1, 130, 2, 20}, {1, 200, 1, 64, false}, {1, 70, 1, 300}, {2, 33, 2, 8, true, 0.25},
    {1, 3, 25, 4}};

AttentionShape shape_of(const Case& c) {
  AttentionShape s;
  s.batch = c.batch;
  s.time = c.time;
  s.heads = c.heads;
  s.head_width = c.head_width;
  s.causal = c.causal;
  s.scale = 1.0 / std::sqrt(static_cast<double>(c.head_width));
  return s;
}

AttentionDropout dropout_of(const Case& c) {
  AttentionDropout d;
  d.drop.stream = {7, Purpose::kAttentionDropout, 3, 1};
  d.drop.p = c.dropout;
  d.first_sequence = 5;
  return d;
}

struct Result {
  TestMatrix out, dqkv, row_max;
  std::vector<double> row_sum;

  DoubleVector sums() { return {row_sum.data(), {static_cast<Index>(row_sum.size())}}; }
};

Result run_both(const Runtime& run, const Case& c, const TestMatrix& qkv, const TestMatrix& dout) {
  const AttentionShape shape = shape_of(c);
  const Index rows = c.batch * c.time, stats = rows * c.heads;
  Result r{TestMatrix(rows, shape.width(), 3), TestMatrix(rows, 3 * shape.width(), 1),
           TestMatrix(1, stats), std::vector<double>(static_cast<std::size_t>(stats))};
  attention_forward(run, shape, split_qkv(ConstMatrix(qkv.view())), {}, r.out.view(),
                    r.row_max.view()[0], r.sums(), dropout_of(c));
  attention_backward(run, shape, dout.view(), split_qkv(ConstMatrix(qkv.view())), {}, r.out.view(),
                     r.row_max.view()[0], r.sums(), split_qkv(r.dqkv.view()), dropout_of(c));
  return r;
}

// One head in double, straight from the formula; out and gradients.
struct Exact {
  std::vector<double> out, dqkv;  // [rows, C], [rows, 3C]
};

Exact exact(const Case& c, const TestMatrix& qkv, const TestMatrix& dout) {
  const Index width = c.heads * c.head_width, rows = c.batch * c.time;
  Exact e{std::vector<double>(static_cast<std::size_t>(rows * width)),
          std::vector<double>(static_cast<std::size_t>(rows * 3 * width))};
  const auto at = [](std::vector<double>& v, Index i) -> double& {
    return v[static_cast<std::size_t>(i)];
  };
  const AttentionShape shape = shape_of(c);
  const AttentionDropout drop = dropout_of(c);
  for (Index b = 0; b < c.batch; ++b) {
    for (Index h = 0; h < c.heads; ++h) {
      for (Index t = 0; t < c.time; ++t) {
        const Index row = b * c.time + t, q = h * c.head_width, end = c.causal ? t + 1 : c.time;
        std::vector<double> p(static_cast<std::size_t>(end)), keep(p.size(), 1.0), dp(p.size());
        double top = -1e300, total = 0.0, inner = 0.0;
        for (Index s = 0; s < end; ++s) {
          double score = 0.0;
          for (Index d = 0; d < c.head_width; ++d) {
            score +=
                static_cast<double>(qkv.at(row, q + d)) * qkv.at(b * c.time + s, width + q + d);
          }
          at(p, s) = score * shape.scale;
          top = std::max(top, at(p, s));
        }
        for (double& x : p) total += x = std::exp(x - top);
        for (Index s = 0; s < end; ++s) {
          at(p, s) /= total;
          if (c.dropout > 0.0) {
            const Index element =
                (((drop.first_sequence + b) * c.heads + h) * c.time + t) * c.time + s;
            at(keep, s) = random_word(drop.drop.stream.key(),
                                      static_cast<std::uint64_t>(element)) >= drop.drop.threshold()
                              ? 1.0 / (1.0 - c.dropout)
                              : 0.0;
          }
          for (Index d = 0; d < c.head_width; ++d) {
            const Index v = 2 * width + q + d, from = b * c.time + s;
            at(e.out, row * width + q + d) += at(p, s) * at(keep, s) * qkv.at(from, v);
            at(e.dqkv, from * 3 * width + v) += at(p, s) * at(keep, s) * dout.at(row, q + d);
            at(dp, s) += dout.at(row, q + d) * qkv.at(from, v) * at(keep, s);
          }
          inner += at(p, s) * at(dp, s);
        }
        for (Index s = 0; s < end; ++s) {
          const double ds = at(p, s) * (at(dp, s) - inner) * shape.scale;
          for (Index d = 0; d < c.head_width; ++d) {
            const Index from = b * c.time + s;
            at(e.dqkv, row * 3 * width + q + d) += ds * qkv.at(from, width + q + d);
            at(e.dqkv, from * 3 * width + width + q + d) += ds * qkv.at(row, q + d);
          }
        }
      }
    }
  }
  return e;
}

// ‖got − exact‖ / ‖exact‖
double distance(const TestMatrix& got, const std::vector<double>& exact) {
  double difference = 0.0, norm = 0.0;
  for (Index r = 0; r < got.rows; ++r) {
    for (Index c = 0; c < got.columns; ++c) {
      const double x = exact[static_cast<std::size_t>(r * got.columns + c)];
      difference += (got.at(r, c) - x) * (got.at(r, c) - x);
      norm += x * x;
    }
  }
  return std::sqrt(difference / (norm + 1e-300));
}

TEST(Attention, forward_and_backward_agree_with_the_formula_in_double) {
  for (const Case& c : kCases) {
    SCOPED_TRACE("T " + std::to_string(c.time) + " D " + std::to_string(c.head_width));
    const Index width = c.heads * c.head_width, rows = c.batch * c.time;
    const TestMatrix qkv = TestMatrix::random(rows, 3 * width, 1, 2, 2.0f);
    const TestMatrix dout = TestMatrix::random(rows, width, 2);
    const Exact want = exact(c, qkv, dout);
    const Result got = run_both(Runtime(), c, qkv, dout);
    EXPECT_LT(distance(got.out, want.out), tolerance::kFloatNorm);
    if (c.time > 1) {
      EXPECT_LT(distance(got.dqkv, want.dqkv), tolerance::kFloatNorm);
    }
  }
}

TEST(Attention, has_the_same_bits_on_every_target_and_thread_count) {
  for (const Case& c : kCases) {
    const Index width = c.heads * c.head_width, rows = c.batch * c.time;
    const TestMatrix qkv = TestMatrix::random(rows, 3 * width, 1, 2, 2.0f);
    const TestMatrix dout = TestMatrix::random(rows, width, 2, 5);
    const Result want = run_both(Runtime(Runtime::Options{1, "auto"}), c, qkv, dout);
    on_every_runtime([&](const Runtime& run) {
      const Result got = run_both(run, c, qkv, dout);
      EXPECT_TRUE(same_bits(got.out, want.out));
      EXPECT_TRUE(same_bits(got.dqkv, want.dqkv));
      EXPECT_EQ(got.row_sum, want.row_sum);
    });
  }
}

TEST(Attention, the_cache_gives_the_bits_of_the_whole_sequence_in_any_pieces) {
  const Index time = 150;
  for (Index head_width : {7, 16, 64}) {
    const Case c{2, time, 2, head_width};
    const AttentionShape whole = shape_of(c);
    const Index width = whole.width();
    const TestMatrix qkv = TestMatrix::random(2 * time, 3 * width, 1);
    on_every_runtime([&](const Runtime& run) {
      TestMatrix out(2 * time, width);
      attention_forward(run, whole, split_qkv(ConstMatrix(qkv.view())), {}, out.view(), {}, {}, {});
      for (const std::vector<Index>& pieces :
           {std::vector<Index>{150}, {1, 149}, {64, 64, 22}, {63, 1, 1, 65, 20}}) {
        KvCache cache(2, c.heads, head_width, time);
        Index past = 0;
        for (Index piece : pieces) {
          AttentionShape part = whole;
          part.time = piece;
          part.past = past;
          TestMatrix some(2 * piece, 3 * width), got(2 * piece, width);
          for (Index b = 0; b < 2; ++b) {
            for (Index t = 0; t < piece; ++t) {
              std::copy_n(qkv.view()[b * time + past + t].data(), 3 * width,
                          some.view()[b * piece + t].data());
            }
          }
          attention_cached(run, part, some.view(), cache, got.view());
          for (Index b = 0; b < 2; ++b) {
            for (Index t = 0; t < piece; ++t) {
              ASSERT_EQ(0, std::memcmp(got.view()[b * piece + t].data(),
                                       out.view()[b * time + past + t].data(),
                                       static_cast<std::size_t>(width) * sizeof(float)))
                  << "position " << past + t;
            }
          }
          past += piece;
        }
      }
    });
  }
}

TEST(Attention, a_token_reaches_no_bit_of_the_rows_before_it_even_as_NaN) {
  const Case c{1, 100, 2, 24};
  const Index width = c.heads * c.head_width;
  const TestMatrix qkv = TestMatrix::random(100, 3 * width, 1);
  const TestMatrix dout = TestMatrix::random(100, width, 2);
  on_every_runtime([&](const Runtime& run) {
    const Result before = run_both(run, c, qkv, dout);
    for (float value :
         {3.0f, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      TestMatrix changed = qkv;
      for (Index i = 0; i < 3 * width; ++i) changed.at(70, i) = value;
      const Result after = run_both(run, c, changed, dout);
      for (Index t = 0; t < 70; ++t) {
        ASSERT_EQ(0, std::memcmp(before.out.view()[t].data(), after.out.view()[t].data(),
                                 static_cast<std::size_t>(width) * sizeof(float)));
      }
      EXPECT_NE(0, std::memcmp(before.out.view()[70].data(), after.out.view()[70].data(),
                               static_cast<std::size_t>(width) * sizeof(float)));
    }
  });
}

TEST(Attention, scores_of_thousands_stay_finite) {
  const Case c{1, 80, 1, 16};
  const TestMatrix qkv = TestMatrix::random(80, 48, 1, 0, 300.0f);
  const TestMatrix dout = TestMatrix::random(80, 16, 2);
  const Result got = run_both(Runtime(), c, qkv, dout);
  for (float x : got.out.data) EXPECT_TRUE(std::isfinite(x));
  for (float x : got.dqkv.data) EXPECT_TRUE(std::isfinite(x));
}

}  // namespace
}  // namespace prenorm::kernels
