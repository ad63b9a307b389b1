#include "prenorm/kernels/attention_target.h"

#include <algorithm>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "prenorm/kernels/attention_target.cc"
#include "prenorm/kernels/targets.h"
// The per-target parts come after the target has been chosen.
#include "prenorm/kernels/attention-inl.h"

HWY_BEFORE_NAMESPACE();
namespace prenorm::kernels::HWY_NAMESPACE {
#if PRENORM_FMA_TARGET
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
constexpr float kOnes[8] = {1, 1, 1, 1, 1, 1, 1, 1};  // for as many rows as a tile has
static_assert(kTileRows <= 8 && kTileRows <= kLanes);

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

// Scales a row's scores and returns their maximum; those past `count`, to a whole group of lanes,
// become −∞.
HWY_INLINE float scale_scores(float* s, float scale, Index count) {
  const F16 factor = set_f(scale);
  F16 top = set_f(kMinusInfinity);
  for (Index j = 0; j < count; j += kLanes) {
    F16 x = mul(load_f(s + j), factor);
    if (count - j < kLanes) x = keep_first(x, count - j, kMinusInfinity);
    store_f(x, s + j);
    top = max(x, top);
  }
  return max_lanes(top);
}

// s ← exp(s − shift); returns the sum. Groups of lanes that the row does not see would add zeros.
HWY_INLINE float exponentials(float* s, float shift, Index count) {
  const F16 by = set_f(shift);
  F16 sum = set_f(0.0f);
  for (Index j = 0; j < count; j += kLanes) {
    const F16 p = exp_nonpositive(sub(load_f(s + j), by));
    store_f(p, s + j);
    sum = add(sum, p);
  }
  return sum_lanes(sum);
}

// The running softmax of a tile's rows.
struct RunningSoftmax {
  alignas(64) float maximum[kLanes], total[kLanes], shift[kLanes], correction[kLanes];

  HWY_INLINE RunningSoftmax() {
    std::fill_n(maximum, kLanes, kMinusInfinity);
    std::fill_n(total, kLanes, 0.0f);
    std::fill_n(shift, kLanes, 0.0f);
  }

  // Takes in a block of scores, of which row i's first count[i] are keys that the row may see, and
  // turns them into unnormalised probabilities; `correction` is what the rows' sums so far shrink
  // by.
  template <int Rows>
  HWY_INLINE void take(float* scores, float scale, const Index* count) {
    alignas(64) float before[kLanes];
    std::copy_n(maximum, kLanes, before);
    for (int i = 0; i < Rows; ++i) {
      const float top = scale_scores(scores + i * kKeyBlock, scale, count[i]);
      maximum[i] = maximum[i] > top ? maximum[i] : top;
      // Every score −∞: such a row attends to nothing so far.
      shift[i] = maximum[i] == kMinusInfinity ? 0.0f : maximum[i];
    }
    store_f(exp_nonpositive(sub(load_f(before), load_f(shift))), correction);
    for (int i = 0; i < Rows; ++i) {
      if (count[i] == 0) continue;
      const float sum = exponentials(scores + i * kKeyBlock, shift[i], count[i]);
      total[i] = total[i] * correction[i] + sum;
    }
  }
};

// What the rows t0, t0 + 1, … of a tile see of the block of keys from k0.
struct SeenKeys {
  Index count[kTileRows];  // the keys up to the last that the causal rule lets through
  Seen seen;               // of these, the ones that the mask leaves

  // Of AttentionRows or AttentionHead.
  template <int Rows, typename Problem>
  static HWY_INLINE SeenKeys of(const Problem& p, Index t0, Index k0) {
    SeenKeys s;
    for (int i = 0; i < Rows; ++i) {
      s.count[i] = visible(p.causal, p.past + t0 + i, k0, p.keys);
      s.seen.row[i] = p.mask ? unmasked(p.mask, t0 + i, k0, s.count[i]) : first_bits(s.count[i]);
    }
    return s;
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
      block_scores<Rows>(p.q + row * p.q_row, p.q_row, p.key_panels + k0 * p.head_width,
                         p.head_width, keys.count[Rows - 1], scores);
      if (p.mask) {
        for (int i = 0; i < Rows; ++i) {
          scale_masked(p.mask, t0 + i, k0, keys.count[i], keys.seen.row[i], p.scale,
                       scores + i * kKeyBlock);
        }
      }
      softmax.take<Rows>(scores, p.mask ? 1.0f : p.scale, keys.count);
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
      const float total = softmax.total[i];
      const float inverse = total == 0.0f ? 0.0f : 1.0f / total;
      float* to = p.out + (row + i) * p.out_row;
      for (Index c = 0; c < p.head_width; ++c) to[c] = out[i * padded + c] * inverse;
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

Index backward_scratch(Index time, Index keys, Index head_width) {
  const Index queries = round_up(time, kKeyBlock), panels = round_up(keys, kKeyBlock);
  return 2 * panels * head_width + 3 * (queries + panels) * padded_head(head_width) +
         round_up(time, kLanes) + 2 * kKeyBlock * kKeyBlock;
}

// Where the backward pass of one head keeps its packed operands and sums.
struct HeadMemory {
  float *key_panels, *value_panels;  // [blocks][D][64]
  float *q, *dout, *dq;              // [T, padded]
  float *k, *dk, *dv;                // [S, padded]
  float* delta;                      // [T]
  float *p, *ds;                     // [64, 64]

  explicit HeadMemory(const AttentionHead& h) {
    const Index queries = round_up(h.time, kKeyBlock), keys = round_up(h.keys, kKeyBlock);
    const Index padded = padded_head(h.head_width);
    float* next = h.scratch;
    const auto place = [&next](float*& part, Index count) { part = next, next += count; };
    for (float** part : {&key_panels, &value_panels}) place(*part, keys * h.head_width);
    for (float** part : {&q, &dout, &dq}) place(*part, queries * padded);
    for (float** part : {&k, &dk, &dv}) place(*part, keys * padded);
    place(delta, round_up(h.time, kLanes));
    place(p, kKeyBlock * kKeyBlock);
    place(ds, kKeyBlock * kKeyBlock);
  }
};

// delta[t] = Σ_d dout[t, d] out[t, d]
void row_deltas(const AttentionHead& h, float* delta) {
  for (Index t = 0; t < h.time; ++t) {
    const float* a = h.dout + t * h.dout_row;
    const float* b = h.out + t * h.out_row;
    D16 sum = set_d(0.0);
    Index c = 0;
    for (; c + kLanes <= h.head_width; c += kLanes) sum = fma(load_d(a + c), load_d(b + c), sum);
    if (c < h.head_width) {
      const Index rest = h.head_width - c;
      sum = fma(load_d_part(a + c, rest, 0.0f), load_d_part(b + c, rest, 0.0f), sum);
    }
    delta[t] = static_cast<float>(sum_lanes(sum));
  }
}

// A block of queries against a block of keys.
struct BlockPair {
  Index q0, k0;
  std::uint64_t seen_by_key[kKeyBlock];  // with a mask: which of the queries see each key
};

// Probabilities p and score gradients ds of a tile of query rows against the keys from k0:
//   p = softmax;  ds = p ∘ (dout Vᵀ − delta) · scale
// What a row does not see holds no meaning.
struct ScoreTile {
  const AttentionHead& h;
  const HeadMemory& m;
  BlockPair& pair;
  Index row;  // the tile's first row in the block of queries

  template <int Rows>
  HWY_INLINE void run() const {
    const Index padded = padded_head(h.head_width), t0 = pair.q0 + row, k0 = pair.k0;
    const SeenKeys keys = SeenKeys::of<Rows>(h, t0, k0);
    float* p = m.p + row * kKeyBlock;
    float* ds = m.ds + row * kKeyBlock;
    block_scores<Rows>(m.q + t0 * padded, padded, m.key_panels + k0 * h.head_width, h.head_width,
                       keys.count[Rows - 1], p);
    block_scores<Rows>(m.dout + t0 * padded, padded, m.value_panels + k0 * h.head_width,
                       h.head_width, keys.count[Rows - 1], ds);
    for (int i = 0; i < Rows; ++i) {
      float* scores = p + i * kKeyBlock;
      if (h.mask) {
        note_seen(row + i, keys.seen.row[i]);
        scale_masked(h.mask, t0 + i, k0, keys.count[i], keys.seen.row[i], h.scale, scores);
      }
      one_row(t0 + i, keys.count[i], scores, ds + i * kKeyBlock);
    }
  }

  HWY_INLINE void note_seen(Index query, std::uint64_t keys) const {
    for (Index key = 0; key < kKeyBlock; ++key) {
      pair.seen_by_key[key] |= (keys >> key & 1) << query;
    }
  }

  HWY_INLINE void one_row(Index t, Index count, float* p, float* ds) const {
    const float total = h.row_sum[t], top = h.row_max[t];
    const F16 shift = set_f(top == kMinusInfinity ? 0.0f : top);
    const F16 inverse = set_f(total == 0.0f ? 0.0f : 1.0f / total);
    const F16 delta = set_f(m.delta[t]), scale = set_f(h.scale);
    const F16 score_scale = set_f(h.mask ? 1.0f : h.scale);
    if (h.dropout.threshold != 0) drop_row(h.dropout, t, pair.k0, count, ds);
    for (Index j = 0; j < count; j += kLanes) {
      const F16 score = mul(load_f(p + j), score_scale);
      const F16 probability = mul(exp_nonpositive(sub(score, shift)), inverse);
      const F16 inner = sub(load_f(ds + j), delta);
      store_f(probability, p + j);
      store_f(mul(mul(probability, inner), scale), ds + j);
    }
    if (h.dropout.threshold != 0) drop_row(h.dropout, t, pair.k0, count, p);
  }
};

// dq rows of a tile += ds · K over the keys that each row sees.
struct QueryGradientTile {
  const AttentionHead& h;
  const HeadMemory& m;
  BlockPair& pair;
  Index row;

  template <int Rows>
  HWY_INLINE void run() const {
    const Index padded = padded_head(h.head_width), t0 = pair.q0 + row;
    const SeenKeys keys = SeenKeys::of<Rows>(h, t0, pair.k0);
    add_ragged<Rows>(m.ds + row * kKeyBlock, kKeyBlock, 1, m.k + pair.k0 * padded, padded,
                     keys.seen, kOnes, m.dq + t0 * padded);
  }
};

// dv and dk rows of a tile of keys += pᵀ · dout and dsᵀ · Q over the queries that see each key.
struct KeyGradientTile {
  const AttentionHead& h;
  const HeadMemory& m;
  BlockPair& pair;
  Index row;  // the tile's first key in its block

  template <int Rows>
  HWY_INLINE void run() const {
    const Index padded = padded_head(h.head_width), q0 = pair.q0, s0 = pair.k0 + row;
    const Index queries = std::min(kKeyBlock, h.time - q0);
    Seen seen;
    for (int i = 0; i < Rows; ++i) {
      const Index before = h.causal ? std::clamp<Index>(s0 + i - h.past - q0, 0, queries) : 0;
      seen.row[i] = h.mask ? pair.seen_by_key[row + i] : first_bits(queries) & ~first_bits(before);
    }
    add_ragged<Rows>(m.p + row, 1, kKeyBlock, m.dout + q0 * padded, padded, seen, kOnes,
                     m.dv + s0 * padded);
    add_ragged<Rows>(m.ds + row, 1, kKeyBlock, m.q + q0 * padded, padded, seen, kOnes,
                     m.dk + s0 * padded);
  }
};

template <typename TileType>
void each_tile(const AttentionHead& h, const HeadMemory& m, BlockPair& pair, Index rows) {
  for (Index row = 0; row < rows; row += kTileRows) {
    with_rows(std::min<Index>(kTileRows, rows - row), TileType{h, m, pair, row});
  }
}

void copy_rows(const float* from, Index from_row, Index rows, Index columns, float* to,
               Index to_row) {
  for (Index t = 0; t < rows; ++t) std::copy_n(from + t * from_row, columns, to + t * to_row);
}

void backward(const AttentionHead& h) {
  const HeadMemory m(h);
  const Index padded = padded_head(h.head_width), width = h.head_width;
  pack_keys(h.k, h.k_row, h.keys, width, m.key_panels);
  pack_keys(h.v, h.v_row, h.keys, width, m.value_panels);
  pack_head_rows(h.q, h.q_row, h.time, width, m.q);
  pack_head_rows(h.k, h.k_row, h.keys, width, m.k);
  pack_head_rows(h.dout, h.dout_row, h.time, width, m.dout);
  std::fill_n(m.dq, h.time * padded, 0.0f);
  for (float* sums : {m.dk, m.dv}) std::fill_n(sums, h.keys * padded, 0.0f);
  row_deltas(h, m.delta);
  for (Index k0 = 0; k0 < h.keys; k0 += kKeyBlock) {
    const Index keys = std::min(kKeyBlock, h.keys - k0);
    const Index first = h.causal ? std::max<Index>(0, k0 - h.past) : 0;
    for (Index q0 = first / kKeyBlock * kKeyBlock; q0 < h.time; q0 += kKeyBlock) {
      const Index queries = std::min(kKeyBlock, h.time - q0);
      BlockPair pair{q0, k0, {}};
      each_tile<ScoreTile>(h, m, pair, queries);
      each_tile<QueryGradientTile>(h, m, pair, queries);
      each_tile<KeyGradientTile>(h, m, pair, keys);
    }
  }
  copy_rows(m.dq, padded, h.time, width, h.dq, h.dq_row);
  copy_rows(m.dk, padded, h.keys, width, h.dk, h.dk_row);
  copy_rows(m.dv, padded, h.keys, width, h.dv, h.dv_row);
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
