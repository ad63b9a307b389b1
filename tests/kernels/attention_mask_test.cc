// Attention with masks of every kind and with more keys than queries, against the textbook.
#include <cmath>
#include <limits>
#include <vector>

#include "prenorm/kernels/attention.h"
#include "prenorm/reference/adjoint.h"
#include "prenorm/reference/attention.h"
#include "tests/kernels/kernel_test_util.h"
#include "tests/tolerances.h"

namespace prenorm::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Case {
  Index batch, time, keys, heads, head_width;
  bool causal;
  enum Added { kNone, kBlocks, kAdds, kPerHead } added;
  bool padding;
  Index past = 0;
};
const Case kCases[] = {
    {2, 5, 5, 3, 7, false, Case::kBlocks, false},
    {2, 9, 9, 2, 16, true, Case::kAdds, true},
    {1, 70, 70, 1, 8, false, Case::kNone, true},
    {2, 65, 65, 2, 20, true, Case::kBlocks, true},
    {1, 2, 5, 1, 4, true, Case::kNone, false, 3},  // the causal rule aligned at the last key
    {1, 5, 2, 2, 3, true, Case::kNone, false},     // and at the first
    {2, 67, 130, 2, 5, false, Case::kPerHead, false},
    {1, 130, 67, 1, 33, true, Case::kAdds, false, 10},
    {1, 1, 200, 25, 1, false, Case::kAdds, true},
};

// A problem and its masks, made of a seed; the last query of each sequence sees no key at all
// where the masks can say so.
struct Problem {
  Case c;
  TestMatrix q, k, v, dout, added;
  std::vector<unsigned char> blocked;
  AttentionShape shape;
  AttentionMask mask;

  explicit Problem(const Case& one, float size = 2.0f)
      : c(one),
        q(TestMatrix::random(c.batch * c.time, c.heads * c.head_width, 1, 3, size)),
        k(TestMatrix::random(c.batch * c.keys, c.heads * c.head_width, 2, 0, size)),
        v(TestMatrix::random(c.batch * c.keys, c.heads * c.head_width, 3, 1)),
        dout(TestMatrix::random(c.batch * c.time, c.heads * c.head_width, 4, 2)),
        added(TestMatrix::random(c.batch * c.heads * c.time, c.keys, 5, 1)) {
    shape = {.batch = c.batch,
             .time = c.time,
             .keys = c.keys,
             .heads = c.heads,
             .head_width = c.head_width,
             .causal = c.causal,
             .past = c.past,
             .scale = 1.0 / std::sqrt(static_cast<double>(c.head_width))};
    const bool blocks = c.added == Case::kBlocks;
    for (Index t = 0; t < added.rows; ++t) {
      for (Index s = 0; s < c.keys; ++s) {
        const bool off = added.at(t, s) > 0.3f || t % c.time == c.time - 1;
        if (blocks) added.at(t, s) = off ? -kInfinity : 0.0f;
      }
    }
    if (c.added != Case::kNone) {
      const Index row = added.view().stride(0);
      const bool own = c.added == Case::kPerHead;  // or the first head's for all
      mask.added =
          View<const float, 4>(added.view().data(), {c.batch, c.heads, c.time, c.keys},
                               {own ? c.heads * c.time * row : 0, own ? c.time * row : 0, row, 1});
    }
    for (Index b = 0; b < c.batch; ++b) {
      for (Index s = 0; s < c.keys; ++s) blocked.push_back((s * 7 + b) % 3 == 0 ? 1 : 0);
    }
    if (c.padding)
      mask.key_blocked = View<const unsigned char, 2>(blocked.data(), {c.batch, c.keys});
  }

  reference::Tensor<double> head(const TestMatrix& x, Index b, Index h, Index rows) const {
    reference::Tensor<double> out({rows, c.head_width});
    for (Index t = 0; t < rows; ++t) {
      for (Index d = 0; d < c.head_width; ++d) out(t, d) = x.at(b * rows + t, h * c.head_width + d);
    }
    return out;
  }
  bool sees(Index b, Index h, Index t, Index s) const {
    return !(c.causal && s > c.past + t) && !(c.padding && blocked[at(b * c.keys + s)] != 0) &&
           (!mask.added || mask.added[b][h][t][s] != -kInfinity);
  }
  static std::size_t at(Index i) { return static_cast<std::size_t>(i); }

  // The textbook's mask of one head: everything in one matrix of numbers to add.
  reference::AttentionMask textbook_mask(Index b, Index h) const {
    reference::AttentionMask m;
    m.added = reference::Tensor<double>({c.time, c.keys});
    for (Index t = 0; t < c.time; ++t) {
      for (Index s = 0; s < c.keys; ++s) {
        m.added(t, s) = !sees(b, h, t, s) ? -std::numeric_limits<double>::infinity()
                        : mask.added      ? static_cast<double>(mask.added[b][h][t][s])
                                          : 0.0;
      }
    }
    return m;
  }
};

struct Result {
  TestMatrix out, dq, dk, dv, row_max;
  std::vector<double> row_sum;

  Result(const Runtime& run, const Problem& p)
      : out(p.q.rows, p.q.columns, 3),
        dq(p.q.rows, p.q.columns, 1),
        dk(p.k.rows, p.k.columns, 2),
        dv(p.k.rows, p.k.columns, 0),
        row_max(1, p.q.rows * p.c.heads),
        row_sum(static_cast<std::size_t>(p.q.rows * p.c.heads)) {
    const DoubleVector sums(row_sum.data(), {static_cast<Index>(row_sum.size())});
    const AttentionInputs in{p.q.view(), p.k.view(), p.v.view()};
    attention_forward(run, p.shape, in, p.mask, out.view(), row_max.view()[0], sums, {});
    attention_backward(run, p.shape, p.dout.view(), in, p.mask, out.view(), row_max.view()[0], sums,
                       {dq.view(), dk.view(), dv.view()}, {});
  }
};

// Adds what one head's columns differ by from the textbook.
struct Distance {
  double difference = 0.0, norm = 0.0;
  void add(const Problem& p, const TestMatrix& got, const reference::Tensor<double>& want, Index b,
           Index h) {
    for (Index t = 0; t < want.rows(); ++t) {
      for (Index d = 0; d < want.columns(); ++d) {
        const double x = got.at(b * want.rows() + t, h * p.c.head_width + d) - want(t, d);
        difference += x * x;
        norm += want(t, d) * want(t, d);
      }
    }
  }
  double relative() const { return std::sqrt(difference / (norm + 1e-300)); }
};

// ‖got − want‖ / ‖want‖ over all heads.
struct Distances {
  Distance out, dq, dk, dv;

  Distances(const Problem& p, const Result& got) {
    const Case& c = p.c;
    for (Index b = 0; b < c.batch; ++b) {
      for (Index h = 0; h < c.heads; ++h) {
        const auto q = p.head(p.q, b, h, c.time), k = p.head(p.k, b, h, c.keys);
        const auto v = p.head(p.v, b, h, c.keys), dout = p.head(p.dout, b, h, c.time);
        const reference::AttentionOptions options{.heads = 1, .causal = false};
        const auto mask = p.textbook_mask(b, h);
        out.add(p, got.out, reference::scaled_dot_product_attention(q, k, v, options, mask), b, h);
        const auto d =
            reference::scaled_dot_product_attention_backward(dout, q, k, v, options, mask);
        dq.add(p, got.dq, d.dq, b, h);
        dk.add(p, got.dk, d.dk, b, h);
        dv.add(p, got.dv, d.dv, b, h);
      }
    }
  }
};

TEST(AttentionMask, forward_and_backward_agree_with_the_textbook) {
  for (const Case& c : kCases) {
    SCOPED_TRACE("T " + std::to_string(c.time) + " S " + std::to_string(c.keys));
    const Problem p(c);
    const Distances off(p, Result(Runtime(), p));
    EXPECT_LT(off.out.relative(), tolerance::kFloatNorm);
    EXPECT_LT(off.dv.relative(), tolerance::kFloatNorm);
    EXPECT_LT(off.dq.relative(), tolerance::kMaskedScoreGradientNorm);
    EXPECT_LT(off.dk.relative(), tolerance::kMaskedScoreGradientNorm);
  }
}

// Scores of hundreds: a float score is off by 1e-5 there, and nearly all of a row's probability is
// at one key, so that its score gradients cancel.
TEST(AttentionMask, rows_that_see_one_key_almost_alone_keep_their_digits) {
  for (const Case& c : kCases) {
    SCOPED_TRACE("T " + std::to_string(c.time) + " S " + std::to_string(c.keys));
    if (c.head_width < 4) continue;
    const Problem p(c, 12.0f);
    const Distances off(p, Result(Runtime(), p));
    EXPECT_LT(off.out.relative(), tolerance::kFloatNorm);
    EXPECT_LT(off.dv.relative(), tolerance::kFloatNorm);
    EXPECT_LT(off.dq.relative(), tolerance::kMaskedScoreGradientNorm);
    EXPECT_LT(off.dk.relative(), tolerance::kMaskedScoreGradientNorm);
  }
}

TEST(AttentionMask, has_the_same_bits_on_every_target_and_thread_count) {
  for (const Case& c : kCases) {
    const Problem p(c);
    const Result want(Runtime(Runtime::Options{1, "auto"}), p);
    on_every_runtime([&](const Runtime& run) {
      const Result got(run, p);
      EXPECT_TRUE(same_bits(got.out, want.out));
      EXPECT_TRUE(same_bits(got.dq, want.dq));
      EXPECT_TRUE(same_bits(got.dk, want.dk));
      EXPECT_TRUE(same_bits(got.dv, want.dv));
    });
  }
}

TEST(AttentionMask, a_query_that_sees_no_key_has_a_zero_output_and_zero_gradient) {
  const Problem p({2, 66, 66, 2, 8, false, Case::kBlocks, false});
  on_every_runtime([&](const Runtime& run) {
    const Result got(run, p);
    for (Index b = 0; b < 2; ++b) {
      for (Index d = 0; d < p.q.columns; ++d) {
        EXPECT_EQ(got.out.at(b * 66 + 65, d), 0.0f);
        EXPECT_EQ(got.dq.at(b * 66 + 65, d), 0.0f);
        EXPECT_NE(got.out.at(b * 66, d), 0.0f);
      }
    }
    for (float x : got.dk.data) EXPECT_TRUE(std::isfinite(x));
  });
}

TEST(AttentionMask, a_blocked_key_contributes_not_even_its_NaN) {
  Problem p({1, 70, 70, 2, 8, false, Case::kNone, true});
  on_every_runtime([&](const Runtime& run) {
    const Result before(run, p);
    Problem changed = p;
    changed.mask.key_blocked = View<const unsigned char, 2>(changed.blocked.data(), {1, 70});
    for (float value : {std::numeric_limits<float>::quiet_NaN(), kInfinity}) {
      for (Index d = 0; d < p.k.columns; ++d) {  // key 66 is blocked: 66 · 7 % 3 = 0
        changed.k.at(66, d) = value;
        changed.v.at(66, d) = value;
      }
      const Result after(run, changed);
      EXPECT_TRUE(same_bits(before.out, after.out));
      EXPECT_TRUE(same_bits(before.dq, after.dq));
      EXPECT_TRUE(same_bits(before.dk, after.dk));
    }
  });
}

TEST(AttentionMask, a_causal_mask_as_numbers_gives_the_bits_of_the_causal_rule) {
  Problem rule({1, 150, 150, 2, 16, true, Case::kNone, false});
  Problem numbers({1, 150, 150, 2, 16, false, Case::kPerHead, false});
  for (Index t = 0; t < numbers.added.rows; ++t) {
    for (Index s = 0; s < 150; ++s) numbers.added.at(t, s) = s <= t % 150 ? 0.0f : -kInfinity;
  }
  on_every_runtime([&](const Runtime& run) {
    const Result want(run, rule), got(run, numbers);
    EXPECT_TRUE(same_bits(got.out, want.out));
    EXPECT_TRUE(same_bits(got.dq, want.dq));
    EXPECT_TRUE(same_bits(got.dk, want.dk));
    EXPECT_TRUE(same_bits(got.dv, want.dv));
  });
}

}  // namespace
}  // namespace prenorm::kernels
