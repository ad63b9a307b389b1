// The backward pass of one head. Per-target include.
#if defined(PRENORM_KERNELS_ATTENTION_BACKWARD_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PRENORM_KERNELS_ATTENTION_BACKWARD_INL_H
#undef PRENORM_KERNELS_ATTENTION_BACKWARD_INL_H
#else
#define PRENORM_KERNELS_ATTENTION_BACKWARD_INL_H
#endif

#include <algorithm>
#include <cstdint>

#include "prenorm/kernels/attention_scores-inl.h"
#include "prenorm/kernels/fetch_ahead.h"

HWY_BEFORE_NAMESPACE();
namespace prenorm::kernels::HWY_NAMESPACE {
#if PRENORM_FMA_TARGET
namespace {

constexpr float kOnes[8] = {1, 1, 1, 1, 1, 1, 1, 1};  // for as many rows as a tile has
static_assert(kTileRows <= 8 && kTileRows <= kLanes);

void pack_keys(const float* k, Index row, Index count, Index head_width, float* panels);
void pack_head_rows(const float* x, Index row, Index count, Index head_width, float* to);

Index backward_scratch(Index time, Index keys, Index head_width) {
  const Index queries = round_up(time, kKeyBlock), panels = round_up(keys, kKeyBlock);
  return 2 * panels * head_width + 3 * (queries + panels) * padded_head(head_width) +
         4 * round_up(time, kLanes) + 2 * kKeyBlock * kKeyBlock;
}

// Where the backward pass of one head keeps its packed operands and sums.
struct HeadMemory {
  float *key_panels, *value_panels;  // [blocks][D][64]
  float *q, *dout, *dq;              // [T, padded]
  float *k, *dk, *dv;                // [S, padded]
  float *delta, *delta_rest;         // [T]: a sum in two parts
  float *inverse, *inverse_rest;     // [T]: 1 / row_sum in two parts
  float *p, *ds;                     // [64, 64]

  explicit HeadMemory(const AttentionHead& h) {
    const Index queries = round_up(h.time, kKeyBlock), keys = round_up(h.keys, kKeyBlock);
    const Index padded = padded_head(h.head_width);
    float* next = h.scratch;
    const auto place = [&next](float*& part, Index count) { part = next, next += count; };
    for (float** part : {&key_panels, &value_panels}) place(*part, keys * h.head_width);
    for (float** part : {&q, &dout, &dq}) place(*part, queries * padded);
    for (float** part : {&k, &dk, &dv}) place(*part, keys * padded);
    for (float** part : {&delta, &delta_rest, &inverse, &inverse_rest}) {
      place(*part, round_up(h.time, kLanes));
    }
    place(p, kKeyBlock * kKeyBlock);
    place(ds, kKeyBlock * kKeyBlock);
  }
};

// A number as the sum of two floats: rounded once, it would be off alike in all of a row.
void in_two_parts(double exact, float& rounded, float& rest) {
  rounded = static_cast<float>(exact);
  rest = static_cast<float>(exact - static_cast<double>(rounded));
}

// delta[t] = Σ_d dout[t, d] out[t, d] = Σ_s p[t, s] dp[t, s], dp = dout Vᵀ; and 1 / row_sum.
void row_factors(const AttentionHead& h, const HeadMemory& m) {
  for (Index t = 0; t < h.time; ++t) {
    in_two_parts(h.row_sum[t] == 0.0 ? 0.0 : 1.0 / h.row_sum[t], m.inverse[t], m.inverse_rest[t]);
    const float* a = h.dout + t * h.dout_row;
    const float* b = h.out + t * h.out_row;
    D16 sum = set_d(0.0);
    Index c = 0;
    for (; c + kLanes <= h.head_width; c += kLanes) sum = fma(load_d(a + c), load_d(b + c), sum);
    if (c < h.head_width) {
      const Index rest = h.head_width - c;
      sum = fma(load_d_part(a + c, rest, 0.0f), load_d_part(b + c, rest, 0.0f), sum);
    }
    m.delta[t] = static_cast<float>(sum_lanes(sum));
    m.delta_rest[t] = 0.0f;
  }
}

// A block of queries against a block of keys.
struct BlockPair {
  Index q0, k0;
  std::uint64_t seen_by_key[kKeyBlock];  // with a mask: which of the queries see each key
};

// The products of a tile of query rows with a block of keys, q Kᵀ in p and dout Vᵀ in dp.
template <int Rows>
HWY_INLINE SeenKeys tile_products(const AttentionHead& h, const HeadMemory& m, Index t0, Index k0,
                                  float* p, float* dp) {
  const Index padded = padded_head(h.head_width);
  const SeenKeys keys = SeenKeys::of<Rows>(h, t0, k0);
  block_scores<Rows>(m.q + t0 * padded, padded, m.key_panels + k0 * h.head_width, h.head_width,
                     keys.count[Rows - 1], p);
  block_scores<Rows>(m.dout + t0 * padded, padded, m.value_panels + k0 * h.head_width, h.head_width,
                     keys.count[Rows - 1], dp);
  return keys;
}

// What is subtracted from a row's scores: their maximum, or nothing where every one is −∞.
HWY_INLINE float finite_top(const AttentionHead& h, Index t) {
  return h.row_max[t] == kMinusInfinity ? 0.0f : h.row_max[t];
}

// Row t of the products becomes unnormalised probabilities p and, with dropout, dp of what was
// kept.
HWY_INLINE void probabilities(const AttentionHead& h, const HeadMemory& m, Index t, Index k0,
                              Index count, std::uint64_t seen, float* p, float* dp) {
  alignas(64) double exact[kKeyBlock];
  const ScoreRow row{
      m.q + t * padded_head(h.head_width), m.key_panels + k0 * h.head_width, t, k0, count, seen};
  const RowRange range = scale_row(h, row, p, exact);
  exponentials(range.in_double, exact, finite_top(h, t), count, p);
  if (h.dropout.threshold != 0) drop_row(h.dropout, t, k0, count, dp);
}

// A row nearly all of whose probability is at one key: its score gradients p (dp − delta) are what
// is left of numbers that cancel, and delta as a sum over d has another rounding than dp.
HWY_INLINE bool is_peaked(const AttentionHead& h, Index t) {
  return h.row_sum[t] < 1.0625 && h.row_sum[t] > 0.0;
}

// For the peaked rows of a tile, delta as Σ_s p dp / Σ_s p from the very numbers it is going to be
// subtracted from, in two parts.
struct PeakedRows {
  const AttentionHead& h;
  const HeadMemory& m;
  Index t0;

  template <int Rows>
  HWY_INLINE void run() const {
    bool any = false;
    for (int i = 0; i < Rows; ++i) any |= is_peaked(h, t0 + i);
    if (!any) return;
    double total[Rows] = {}, weighted[Rows] = {};
    const Index end = h.causal ? std::min(h.keys, h.past + t0 + Rows) : h.keys;
    for (Index k0 = 0; k0 < end; k0 += kKeyBlock) {
      const SeenKeys keys = tile_products<Rows>(h, m, t0, k0, m.p, m.ds);
      for (int i = 0; i < Rows; ++i) {
        if (!is_peaked(h, t0 + i)) continue;
        add_row(t0 + i, k0, keys.count[i], keys.seen.row[i], m.p + i * kKeyBlock,
                m.ds + i * kKeyBlock, total[i], weighted[i]);
      }
    }
    for (int i = 0; i < Rows; ++i) {
      if (!is_peaked(h, t0 + i)) continue;
      in_two_parts(weighted[i] / total[i], m.delta[t0 + i], m.delta_rest[t0 + i]);
    }
  }

  HWY_INLINE void add_row(Index t, Index k0, Index count, std::uint64_t seen, float* p, float* dp,
                          double& total, double& weighted) const {
    probabilities(h, m, t, k0, count, seen, p, dp);
    // What is not seen may hold anything.
    for (Index j = 0; j < round_up(count, kLanes); ++j) {
      if (j >= count || (seen >> j & 1) == 0) p[j] = dp[j] = 0.0f;
    }
    D16 sum = set_d(0.0), product = set_d(0.0);
    for (Index j = 0; j < count; j += kLanes) {
      const D16 weight = load_d(p + j);
      sum = add(sum, weight);
      product = fma(weight, load_d(dp + j), product);
    }
    total += sum_lanes(sum);
    weighted += sum_lanes(product);
  }
};

// One of the products of a pair of blocks, by tiles of its rows.
struct PairTile {
  const AttentionHead& h;
  const HeadMemory& m;
  BlockPair& pair;
  Index row;  // the tile's first row in its block, of queries or of keys
};

// Probabilities p and score gradients ds of a tile of query rows against the keys from k0:
//   p = softmax;  ds = p ∘ (dout Vᵀ − delta) · scale
// What a row does not see holds no meaning.
struct ScoreTile : PairTile {
  template <int Rows>
  HWY_INLINE void run() const {
    const Index t0 = pair.q0 + row;
    float* p = m.p + row * kKeyBlock;
    float* ds = m.ds + row * kKeyBlock;
    const SeenKeys keys = tile_products<Rows>(h, m, t0, pair.k0, p, ds);
    const bool plain = !h.mask && !has_large_score<Rows>(h, keys, p);
    for (int i = 0; i < Rows; ++i) {
      const Index t = t0 + i, count = keys.count[i];
      float *row_p = p + i * kKeyBlock, *row_ds = ds + i * kKeyBlock;
      if (plain) {
        if (h.dropout.threshold != 0) drop_row(h.dropout, t, pair.k0, count, row_ds);
        const F16 scale = set_f(static_cast<float>(h.scale)), top = set_f(finite_top(h, t));
        gradients(t, keys.count[Rows - 1], row_p, row_ds, [scale, top](const F16& product) {
          return exp_nonpositive(sub(mul(product, scale), top));
        });
      } else {
        if (h.mask) note_seen(row + i, keys.seen.row[i]);
        probabilities(h, m, t, pair.k0, count, keys.seen.row[i], row_p, row_ds);
        gradients(t, count, row_p, row_ds, [](const F16& exponential) { return exponential; });
      }
      if (h.dropout.threshold != 0) drop_row(h.dropout, t, pair.k0, count, row_p);
    }
  }

  HWY_INLINE void note_seen(Index query, std::uint64_t keys) const {
    for (Index key = 0; key < kKeyBlock; ++key) {
      pair.seen_by_key[key] |= (keys >> key & 1) << query;
    }
  }

  // From what `exponential` makes of p, and from dp, the row's p and ds.
  template <typename Exponential>
  HWY_INLINE void gradients(Index t, Index count, float* p, float* ds,
                            const Exponential& exponential) const {
    const F16 inverse = set_f(m.inverse[t]), inverse_rest = set_f(m.inverse_rest[t]);
    const F16 delta = set_f(m.delta[t]), rest = set_f(m.delta_rest[t]);
    const F16 scale = set_f(static_cast<float>(h.scale));
    for (Index j = 0; j < count; j += kLanes) {
      const F16 e = exponential(load_f(p + j));
      const F16 probability = fma(e, inverse, mul(e, inverse_rest));
      const F16 inner = sub(sub(load_f(ds + j), delta), rest);
      store_f(probability, p + j);
      store_f(mul(mul(probability, inner), scale), ds + j);
    }
  }
};

// dq rows of a tile += ds · K over the keys that each row sees.
struct QueryGradientTile : PairTile {
  template <int Rows>
  HWY_INLINE void run() const {
    const Index padded = padded_head(h.head_width), t0 = pair.q0 + row;
    const SeenKeys keys = SeenKeys::of<Rows>(h, t0, pair.k0);
    add_ragged<Rows>(m.ds + row * kKeyBlock, kKeyBlock, 1, m.k + pair.k0 * padded, padded,
                     keys.seen, kOnes, m.dq + t0 * padded);
  }
};

// The queries that see each key of a tile.
template <int Rows>
HWY_INLINE Seen seen_by_keys(const AttentionHead& h, const BlockPair& pair, Index row) {
  const Index queries = std::min(kKeyBlock, h.time - pair.q0);
  Seen seen;
  for (int i = 0; i < Rows; ++i) {
    const Index key = pair.k0 + row + i;
    const Index before = h.causal ? std::clamp<Index>(key - h.past - pair.q0, 0, queries) : 0;
    seen.row[i] = h.mask ? pair.seen_by_key[row + i] : first_bits(queries) & ~first_bits(before);
  }
  return seen;
}

// dv rows of a tile of keys += pᵀ · dout over the queries that see each key.
struct ValueGradientTile : PairTile {
  template <int Rows>
  HWY_INLINE void run() const {
    const Index padded = padded_head(h.head_width);
    add_ragged<Rows>(m.p + row, 1, kKeyBlock, m.dout + pair.q0 * padded, padded,
                     seen_by_keys<Rows>(h, pair, row), kOnes, m.dv + (pair.k0 + row) * padded);
  }
};

// dk rows += dsᵀ · Q likewise. Each of the two on its own, so that its operands stay in the nearest
// cache from tile to tile.
struct KeyGradientTile : PairTile {
  template <int Rows>
  HWY_INLINE void run() const {
    const Index padded = padded_head(h.head_width);
    add_ragged<Rows>(m.ds + row, 1, kKeyBlock, m.q + pair.q0 * padded, padded,
                     seen_by_keys<Rows>(h, pair, row), kOnes, m.dk + (pair.k0 + row) * padded);
  }
};

template <typename TileType>
void each_tile(const AttentionHead& h, const HeadMemory& m, BlockPair& pair, Index rows,
               FetchAhead& ahead) {
  for (Index row = 0; row < rows; row += kTileRows) {
    ahead.fetch();
    with_rows(std::min<Index>(kTileRows, rows - row), TileType{{h, m, pair, row}});
  }
}

void copy_rows(const float* from, Index from_row, Index rows, Index columns, float* to,
               Index to_row) {
  for (Index t = 0; t < rows; ++t) std::copy_n(from + t * from_row, columns, to + t * to_row);
}

// Calls use(k0, q0) for each pair of blocks of which a query sees a key.
template <typename Use>
void each_pair(const AttentionHead& h, const Use& use) {
  for (Index k0 = 0; k0 < h.keys; k0 += kKeyBlock) {
    const Index first = h.causal ? std::max<Index>(0, k0 - h.past) : 0;
    for (Index q0 = first / kKeyBlock * kKeyBlock; q0 < h.time; q0 += kKeyBlock) use(k0, q0);
  }
}

// Where the gradients go, and what the next head begins with: rows far from one another.
FetchAhead results_and_next(const AttentionHead& h) {
  FetchAhead ahead;
  if (!h.fetch_ahead) return ahead;
  ahead.add(h.dq, h.dq_row, h.time, h.head_width);
  ahead.add(h.dk, h.dk_row, h.keys, h.head_width);
  ahead.add(h.dv, h.dv_row, h.keys, h.head_width);
  if (h.next != nullptr) {
    const AttentionHead& next = *h.next;
    ahead.add(next.k, next.k_row, next.keys, next.head_width);
    ahead.add(next.v, next.v_row, next.keys, next.head_width);
    ahead.add(next.q, next.q_row, next.time, next.head_width);
    ahead.add(next.dout, next.dout_row, next.time, next.head_width);
    ahead.add(next.out, next.out_row, next.time, next.head_width);
  }
  Index tiles = 0;
  each_pair(h, [&](Index k0, Index q0) {
    tiles += 2 * (ceil_div(std::min(kKeyBlock, h.keys - k0), kTileRows) +
                  ceil_div(std::min(kKeyBlock, h.time - q0), kTileRows));
  });
  ahead.spread_over(tiles);
  return ahead;
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
  row_factors(h, m);
  for (Index t = 0; t < h.time; t += kTileRows) {
    with_rows(std::min<Index>(kTileRows, h.time - t), PeakedRows{h, m, t});
  }
  FetchAhead ahead = results_and_next(h);
  each_pair(h, [&](Index k0, Index q0) {
    const Index keys = std::min(kKeyBlock, h.keys - k0);
    const Index queries = std::min(kKeyBlock, h.time - q0);
    BlockPair pair{q0, k0, {}};
    each_tile<ScoreTile>(h, m, pair, queries, ahead);
    each_tile<QueryGradientTile>(h, m, pair, queries, ahead);
    each_tile<KeyGradientTile>(h, m, pair, keys, ahead);
    each_tile<ValueGradientTile>(h, m, pair, keys, ahead);
  });
  copy_rows(m.dq, padded, h.time, width, h.dq, h.dq_row);
  copy_rows(m.dk, padded, h.keys, width, h.dk, h.dk_row);
  copy_rows(m.dv, padded, h.keys, width, h.dv, h.dv_row);
}

}  // namespace
#endif  // PRENORM_FMA_TARGET
}  // namespace prenorm::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per-target guard
