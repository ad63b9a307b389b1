#include "prenorm/kernels/attention_target.h"

#include <algorithm>
#include <cassert>

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

constexpr Index kTiles = ceil_div(kKeyBlock, Index{kTileRows});  // of rows, in a block of queries

Index forward_scratch(Index head_width) {
  return kTileRows * kKeyBlock + kTiles * kTileRows * padded_head(head_width);
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
  }

  // Takes in a block of products of queries and keys, [Rows, 64], and turns them into unnormalised
  // probabilities; `correction` is what the rows' sums so far shrink by. False where it cannot,
  // because a row's scores ask for a closer look: then the products are as they were.
  template <int Rows>
  HWY_INLINE bool take_plain(const AttentionRows& p, const SeenKeys& keys, float* scores) {
    if (p.mask || has_large_score<Rows>(p, keys, scores)) return false;
    const F16 scale = set_f(static_cast<float>(p.scale));
    alignas(64) float top[kLanes];
    store_f(set_f(kMinusInfinity), top);
#pragma GCC unroll 8
    for (int i = 0; i < Rows; ++i) {
      F16 most = set_f(kMinusInfinity);
      for (Index j = 0; j < keys.count[Rows - 1]; j += kLanes) {
        F16 x = mul(load_f(scores + i * kKeyBlock + j), scale);
        if (keys.count[i] - j < kLanes) x = keep_first(x, keys.count[i] - j, kMinusInfinity);
        store_f(x, scores + i * kKeyBlock + j);
        most = max(x, most);
      }
      top[i] = max_lanes(most);
    }
    raise(load_f(top));
#pragma GCC unroll 8
    for (int i = 0; i < Rows; ++i) {
      const F16 by = set_f(shift[i]);
      D16 sum = set_d(0.0);
      for (Index j = 0; j < keys.count[Rows - 1]; j += kLanes) {
        const F16 e = exp_nonpositive(sub(load_f(scores + i * kKeyBlock + j), by));
        store_f(e, scores + i * kKeyBlock + j);
        sum = add(sum, to_d(e));
      }
      total[i] = total[i] * static_cast<double>(correction[i]) + sum_lanes(sum);
    }
    return true;
  }

  // The same for any rows, one after another.
  template <int Rows>
  HWY_INLINE void take(const AttentionRows& p, const ScoreRow* rows, float* scores) {
    alignas(64) double exact[Rows * kKeyBlock];
    alignas(64) float top[kLanes];
    bool in_double[Rows];
    store_f(set_f(kMinusInfinity), top);
    for (int i = 0; i < Rows; ++i) {
      const RowRange range = scale_row(p, rows[i], scores + i * kKeyBlock, exact + i * kKeyBlock);
      in_double[i] = range.in_double;
      top[i] = range.top;
    }
    raise(load_f(top));
    for (int i = 0; i < Rows; ++i) {
      if (rows[i].count == 0) continue;
      const double sum = exponentials(in_double[i], exact + i * kKeyBlock, shift[i], rows[i].count,
                                      scores + i * kKeyBlock);
      total[i] = total[i] * static_cast<double>(correction[i]) + sum;
    }
  }

 private:
  // The maxima rise to those of a block.
  HWY_INLINE void raise(const F16& top) {
    const F16 before = load_f(maximum), after = max(before, top);
    // Every score −∞: such a row attends to nothing so far.
    const F16 by = zero_where_equal(after, kMinusInfinity);
    store_f(after, maximum);
    store_f(by, shift);
    store_f(exp_nonpositive(sub(before, by)), correction);
  }
};

// A block of at most 64 query rows against all the keys that they see: block of keys after block,
// so that each is read from the nearest cache by all tiles of rows but the first.
struct ForwardBlock {
  const AttentionRows& p;
  RunningSoftmax softmax[kTiles];

  void run() {
    const Index padded = padded_head(p.head_width), t0 = p.first;
    std::fill_n(sums(), kTiles * kTileRows * padded, 0.0f);
    const Index end = p.causal ? std::min(p.keys, p.past + t0 + p.rows) : p.keys;
    for (Index k0 = 0; k0 < end; k0 += kKeyBlock) {
      for (Index row = 0; row < p.rows; row += kTileRows) {
        with_rows(std::min<Index>(kTileRows, p.rows - row), Tile{*this, row, k0});
      }
    }
    for (Index row = 0; row < p.rows; ++row) finish(row);
  }

 private:
  struct Tile {
    ForwardBlock& block;
    Index row, k0;  // the tile's first row

    template <int Rows>
    HWY_INLINE void run() const {
      block.tile<Rows>(row, k0);
    }
  };

  float* scores() const { return p.scratch; }                        // [tile rows, 64]
  float* sums() const { return p.scratch + kTileRows * kKeyBlock; }  // [rows, padded]

  template <int Rows>
  HWY_INLINE void tile(Index row, Index k0) {
    const Index padded = padded_head(p.head_width), t0 = p.first + row;
    const SeenKeys keys = SeenKeys::of<Rows>(p, t0, k0);
    if (keys.count[Rows - 1] == 0) return;
    const float* panel = p.key_panels + k0 * p.head_width;
    RunningSoftmax& running = softmax[row / kTileRows];
    float* s = scores();
    block_scores<Rows>(p.q + row * p.q_row, p.q_row, panel, p.head_width, keys.count[Rows - 1], s);
    if (!running.take_plain<Rows>(p, keys, s)) {
      ScoreRow rows[Rows];
      for (int i = 0; i < Rows; ++i) {
        rows[i] = {p.q + (row + i) * p.q_row, panel, t0 + i, k0, keys.count[i], keys.seen.row[i]};
      }
      running.take<Rows>(p, rows, s);
    }
    if (p.dropout.threshold != 0) {
      for (int i = 0; i < Rows; ++i) {
        drop_row(p.dropout, t0 + i, k0, keys.count[i], s + i * kKeyBlock);
      }
    }
    add_ragged<Rows>(s, kKeyBlock, 1, p.values + k0 * padded, padded, keys.seen, running.correction,
                     sums() + row * padded);
  }

  void finish(Index row) {
    const RunningSoftmax& running = softmax[row / kTileRows];
    const double total = running.total[row % kTileRows];
    const double inverse = total == 0.0 ? 0.0 : 1.0 / total;
    const float* from = sums() + row * padded_head(p.head_width);
    float* to = p.out + row * p.out_row;
    for (Index c = 0; c < p.head_width; ++c) {
      to[c] = static_cast<float>(static_cast<double>(from[c]) * inverse);
    }
    if (p.row_max == nullptr) return;
    p.row_max[row] = running.maximum[row % kTileRows];
    p.row_sum[row] = total;
  }
};

void forward(const AttentionRows& p) {
  assert(p.rows <= kKeyBlock);
  ForwardBlock{p, {}}.run();
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
