#include "prenorm/kernels/attention_target.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "prenorm/kernels/attention_target.cc"
#include "prenorm/kernels/targets.h"
// The per-target parts come after the target has been chosen.
#include "prenorm/kernels/attention_backward-inl.h"
#include "prenorm/kernels/attention_scores-inl.h"

HWY_BEFORE_NAMESPACE();
namespace prenorm::kernels::HWY_NAMESPACE {
#if PRENORM_FMA_TARGET
namespace {

Index forward_scratch(Index head_width) {
  return kTileRows * (kKeyBlock + padded_head(head_width));
}

void pack_keys(const float* k, Index row, Index count, Index head_width, float* panels) {
  for (Index s = 0; s < count; s += kKeyBlock) {
    pack_transposed(k + s * row, row, head_width, std::min(kKeyBlock, count - s), kKeyBlock,
                    panels + s * head_width, kKeyBlock);
  }
}

void pack_head_rows(const float* x, Index row, Index count, Index head_width, float* to) {
  const Index padded = padded_head(head_width);
  pack_rows(x, row, count, head_width, padded, to, padded);
}

// The running softmax of a tile's rows.
struct RunningSoftmax {
  alignas(64) float maximum[kLanes], shift[kLanes], correction[kLanes];
  double total[kLanes];

  HWY_INLINE RunningSoftmax() {
    std::fill_n(maximum, kLanes, kMinusInfinity);
    std::fill_n(total, kLanes, 0.0);
    std::fill_n(shift, kLanes, 0.0f);
  }

  // Takes in a block of products of queries and keys, [Rows, 64], and turns them into unnormalised
  // probabilities; `correction` is what the rows' sums so far shrink by.
  template <int Rows>
  HWY_INLINE void take(const AttentionRows& p, const ScoreRow* rows, float* scores) {
    alignas(64) float before[kLanes];
    alignas(64) double exact[Rows * kKeyBlock];
    bool in_double[Rows];
    std::copy_n(maximum, kLanes, before);
    for (int i = 0; i < Rows; ++i) {
      const RowRange range = scale_row(p, rows[i], scores + i * kKeyBlock, exact + i * kKeyBlock);
      in_double[i] = range.in_double;
      maximum[i] = maximum[i] > range.top ? maximum[i] : range.top;
      // Every score −∞: such a row attends to nothing so far.
      shift[i] = maximum[i] == kMinusInfinity ? 0.0f : maximum[i];
    }
    store_f(exp_nonpositive(sub(load_f(before), load_f(shift))), correction);
    for (int i = 0; i < Rows; ++i) {
      if (rows[i].count == 0) continue;
      const double sum = exponentials(in_double[i], exact + i * kKeyBlock, shift[i], rows[i].count,
                                      scores + i * kKeyBlock);
      total[i] = total[i] * static_cast<double>(correction[i]) + sum;
    }
  }
};

// A tile of query rows against all the keys that they see, block after block.
struct ForwardTile {
  const AttentionRows& p;
  Index row;  // first row of the tile

  template <int Rows>
  HWY_INLINE void run() const {
    const Index padded = padded_head(p.head_width), t0 = p.first + row;
    float* scores = p.scratch;
    float* out = p.scratch + kTileRows * kKeyBlock;
    std::fill_n(out, Rows * padded, 0.0f);
    RunningSoftmax softmax;
    const Index end = p.causal ? std::min(p.keys, p.past + t0 + Rows) : p.keys;
    for (Index k0 = 0; k0 < end; k0 += kKeyBlock) {
      const SeenKeys keys = SeenKeys::of<Rows>(p, t0, k0);
      const float* panel = p.key_panels + k0 * p.head_width;
      block_scores<Rows>(p.q + row * p.q_row, p.q_row, panel, p.head_width, keys.count[Rows - 1],
                         scores);
      ScoreRow rows[Rows];
      for (int i = 0; i < Rows; ++i) {
        rows[i] = {p.q + (row + i) * p.q_row, panel, t0 + i, k0, keys.count[i], keys.seen.row[i]};
      }
      softmax.take<Rows>(p, rows, scores);
      if (p.dropout.threshold != 0) {
        for (int i = 0; i < Rows; ++i) {
          drop_row(p.dropout, t0 + i, k0, keys.count[i], scores + i * kKeyBlock);
        }
      }
      add_ragged<Rows>(scores, kKeyBlock, 1, p.values + k0 * padded, padded, keys.seen,
                       softmax.correction, out);
    }
    finish<Rows>(softmax, out, padded);
  }

  template <int Rows>
  HWY_INLINE void finish(const RunningSoftmax& softmax, const float* out, Index padded) const {
    for (int i = 0; i < Rows; ++i) {
      const double total = softmax.total[i];
      const double inverse = total == 0.0 ? 0.0 : 1.0 / total;
      float* to = p.out + (row + i) * p.out_row;
      for (Index c = 0; c < p.head_width; ++c) {
        to[c] = static_cast<float>(static_cast<double>(out[i * padded + c]) * inverse);
      }
      if (p.row_max == nullptr) continue;
      p.row_max[row + i] = softmax.maximum[i];
      p.row_sum[row + i] = total;
    }
  }
};

void forward(const AttentionRows& p) {
  for (Index row = 0; row < p.rows; row += kTileRows) {
    with_rows(std::min<Index>(kTileRows, p.rows - row), ForwardTile{p, row});
  }
}

}  // namespace

const AttentionTarget kAttentionTarget = {forward_scratch, backward_scratch, pack_keys,
                                          pack_head_rows,  forward,          backward};

#endif  // PRENORM_FMA_TARGET
}  // namespace prenorm::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace prenorm::kernels {
PRENORM_TARGET_TABLE(AttentionTarget, attention_target, kAttentionTarget)
}  // namespace prenorm::kernels
#endif
