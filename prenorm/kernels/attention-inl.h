// The pieces that attention's forward and backward passes share: scores of a tile of query rows
// against a block of keys, products whose rows see different stretches of k, dropout masks.
// Per-target include.
#if defined(PRENORM_KERNELS_ATTENTION_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PRENORM_KERNELS_ATTENTION_INL_H
#undef PRENORM_KERNELS_ATTENTION_INL_H
#else
#define PRENORM_KERNELS_ATTENTION_INL_H
#endif

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "prenorm/kernels/attention_target.h"
#include "prenorm/kernels/math-inl.h"
#include "prenorm/kernels/matmul.h"
#include "prenorm/kernels/pack-inl.h"
#include "prenorm/kernels/philox-inl.h"
#include "prenorm/kernels/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace prenorm::kernels::HWY_NAMESPACE {
#if PRENORM_FMA_TARGET

constexpr int kPairs = 2;  // vectors across in attention's tiles
constexpr Index kPairWidth = kPairs * kFloatLanes;

// c[i, 0:keys] = a[i, :] · panel over the head's width, in sum blocks as a matrix product.
template <int Rows>
HWY_INLINE void block_scores(const float* a, Index a_row, const float* panel, Index width,
                             Index keys, float* c) {
  const DF d;
  for (Index j = 0; j < keys; j += kPairWidth) {
    Index k = std::min(kSumBlock, width);
    auto t = tile_product<Rows, kPairs>(a, a_row, 1, panel + j, kKeyBlock, k);
    for (; k < width; k += kSumBlock) {
      auto more = tile_product<Rows, kPairs>(a + k, a_row, 1, panel + k * kKeyBlock + j, kKeyBlock,
                                             std::min(kSumBlock, width - k));
      each_sum(more, [&](VF& sum, auto i, auto v)
                         PRENORM_INLINED { t.sum[i][v] = hn::Add(t.sum[i][v], sum); });
    }
    each_sum(t, [&](VF& sum, auto i, auto v) PRENORM_INLINED {
      hn::StoreU(sum, d, c + i * kKeyBlock + j + v * kFloatLanes);
    });
  }
}

// The k of a block of at most 64 that each row of a tile takes part in: bit k of its word.
struct Seen {
  std::uint64_t row[kTileRows];
};

constexpr std::uint64_t first_bits(Index count) {
  return count >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
}
// The lowest bit set, and one past the highest. Requires: bits != 0.
HWY_INLINE Index lowest_bit(std::uint64_t bits) { return std::countr_zero(bits); }
HWY_INLINE Index end_bit(std::uint64_t bits) { return 64 - std::countl_zero(bits); }

// As add_product from k = low to high, but row i runs over the k that it sees: the others add
// nothing, not even the sign of a zero.
template <int Rows, int Vectors>
HWY_INLINE void add_ragged_product(Tile<Rows, Vectors>& t, const float* HWY_RESTRICT a, Index a_row,
                                   Index a_step, const float* HWY_RESTRICT b, Index b_row,
                                   const Seen& seen, Index low, Index high) {
  const DF d;
  for (Index k = low; k < high; ++k) {
    VF row[Vectors];
    each<Vectors>([&](auto j)
                      PRENORM_INLINED { row[j] = hn::Load(d, b + k * b_row + j * kFloatLanes); });
    each<Rows>([&](auto i) PRENORM_INLINED {
      const auto sees =
          hn::FirstN(d, (seen.row[i] >> k & 1) == 0 ? 0 : static_cast<std::size_t>(kFloatLanes));
      const VF x = hn::Set(d, a[i * a_row + k * a_step]);
      each<Vectors>([&](auto j) PRENORM_INLINED {
        t.sum[i][j] = hn::IfThenElse(sees, hn::MulAdd(x, row[j], t.sum[i][j]), t.sum[i][j]);
      });
    });
  }
}

// The stretches of k that some and that all rows of a tile see. [begin, end) is empty at `high`
// where those of all are none, or not one stretch.
struct Stretch {
  Index low = 0, begin = 0, end = 0, high = 0;

  bool whole() const { return low == begin && end == high; }

  template <int Rows>
  static HWY_INLINE Stretch of(const Seen& seen) {
    std::uint64_t any = seen.row[0], all = seen.row[0];
    for (int i = 1; i < Rows; ++i) {
      any |= seen.row[i];
      all &= seen.row[i];
    }
    Stretch s;
    if (any == 0) return s;
    s.low = lowest_bit(any);
    s.begin = s.end = s.high = end_bit(any);
    if (all != 0 && all == (first_bits(end_bit(all)) & ~first_bits(lowest_bit(all)))) {
      s.begin = lowest_bit(all);
      s.end = end_bit(all);
    }
    return s;
  }
};

// One strip of columns of add_ragged() below.
template <int Rows, int Vectors>
HWY_INLINE void add_ragged_strip(const float* a, Index a_row, Index a_step, const float* b,
                                 Index padded, const Seen& seen, const Stretch& k,
                                 const float* factor, float* c) {
  const DF d;
  const float *from_a = a + k.begin * a_step, *from_b = b + k.begin * padded;
  const auto add = [&](VF sum, int i, int v) PRENORM_INLINED {
    float* to = c + i * padded + v * kFloatLanes;
    hn::StoreU(hn::MulAdd(hn::LoadU(d, to), hn::Set(d, factor[i]), sum), d, to);
  };
  if (k.whole()) {
    auto t = tile_product<Rows, Vectors>(from_a, a_row, a_step, from_b, padded, k.end - k.begin);
    each_sum(t, [&](VF& sum, auto i, auto v) PRENORM_INLINED { add(sum, i, v); });
    return;
  }
  auto t = zero_tile<Rows, Vectors>();
  add_ragged_product(t, a, a_row, a_step, b, padded, seen, k.low, k.begin);
  add_product<Rows, Vectors>(t, from_a, a_row, a_step, from_b, padded, k.end - k.begin);
  add_ragged_product(t, a, a_row, a_step, b, padded, seen, k.end, k.high);
  each_sum(t, [&](VF& sum, auto i, auto v) PRENORM_INLINED {
    if (seen.row[i] != 0) add(sum, i, v);
  });
}

// c[i, :] = c[i, :] * factor[i] + Σ over the k that row i sees of a[i, k] b[k, :], for rows that
// see any: most often all see one stretch, and some of them a few k more before or after it.
// b: [·, padded], c: rows of `padded`.
template <int Rows>
HWY_INLINE void add_ragged(const float* a, Index a_row, Index a_step, const float* b, Index padded,
                           const Seen& seen, const float* factor, float* c) {
  const Stretch k = Stretch::of<Rows>(seen);
  if (k.high == 0) return;
  Index j = 0;
  for (; j + kPairWidth <= padded; j += kPairWidth) {
    add_ragged_strip<Rows, kPairs>(a, a_row, a_step, b + j, padded, seen, k, factor, c + j);
  }
  for (; j < padded; j += kFloatLanes) {
    add_ragged_strip<Rows, 1>(a, a_row, a_step, b + j, padded, seen, k, factor, c + j);
  }
}

// Multiplies the first `count` (at most 64) of one row's numbers, keys from `key`, by the dropout
// mask.
HWY_INLINE void drop_row(const HeadDropout& drop, Index query, Index key, Index count, float* p) {
  constexpr Index kBlocks = kKeyBlock / 4 + 1;  // of a row that begins inside one
  alignas(64) std::uint32_t words[4 * (kBlocks + kPhiloxSlack)];
  const std::uint64_t first = drop.first + static_cast<std::uint64_t>(query * drop.keys + key);
  philox_words(drop.key, first >> 2, kBlocks, words);
  const std::uint32_t* word = words + (first & 3);
  for (Index j = 0; j < count; ++j) {
    p[j] = word[j] >= drop.threshold ? p[j] * drop.scale : 0.0f;
  }
}

// Calls f.template rows<Rows>() for Rows == rows, 1 to kTileRows.
template <int Rows = kTileRows, typename F>
HWY_INLINE void with_rows(Index rows, const F& f) {
  if constexpr (Rows > 0) {
    if (rows == Rows) {
      f.template run<Rows>();
    } else {
      with_rows<Rows - 1>(rows, f);
    }
  }
}

#endif  // PRENORM_FMA_TARGET
}  // namespace prenorm::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per-target guard
