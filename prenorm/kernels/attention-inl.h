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
      const auto more = tile_product<Rows, kPairs>(a + k, a_row, 1, panel + k * kKeyBlock + j,
                                                   kKeyBlock, std::min(kSumBlock, width - k));
      for (int i = 0; i < Rows; ++i) {
        for (int v = 0; v < kPairs; ++v) t.sum[i][v] = hn::Add(t.sum[i][v], more.sum[i][v]);
      }
    }
#pragma GCC unroll 8
    for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 2
      for (int v = 0; v < kPairs; ++v) {
        hn::StoreU(t.sum[i][v], d, c + i * kKeyBlock + j + v * kFloatLanes);
      }
    }
  }
}

// The stretch of k that each row of a tile takes part in.
struct Stretch {
  Index begin[kTileRows], end[kTileRows];
};

// As tile_product, but row i runs over k in [begin[i], end[i]) only: what it does not see adds
// nothing, not even the sign of a zero.
template <int Rows, int Vectors>
HWY_INLINE Tile<Rows, Vectors> ragged_product(const float* HWY_RESTRICT a, Index a_row,
                                              Index a_step, const float* HWY_RESTRICT b,
                                              Index b_row, const Stretch& s) {
  const DF d;
  Index low = s.begin[0], common_begin = s.begin[0], common_end = s.end[0], high = s.end[0];
  for (int i = 1; i < Rows; ++i) {
    low = std::min(low, s.begin[i]);
    common_begin = std::max(common_begin, s.begin[i]);
    common_end = std::min(common_end, s.end[i]);
    high = std::max(high, s.end[i]);
  }
  if (low == common_begin && high == common_end) {
    return tile_product<Rows, Vectors>(a + low * a_step, a_row, a_step, b + low * b_row, b_row,
                                       high - low);
  }
  Tile<Rows, Vectors> t;
  for (int i = 0; i < Rows; ++i) {
    for (int j = 0; j < Vectors; ++j) t.sum[i][j] = hn::Zero(d);
  }
  for (Index k = low; k < high; ++k) {
    VF row[Vectors];
    for (int j = 0; j < Vectors; ++j) row[j] = hn::Load(d, b + k * b_row + j * kFloatLanes);
    const bool all = k >= common_begin && k < common_end;
#pragma GCC unroll 8
    for (int i = 0; i < Rows; ++i) {
      if (!all && (k < s.begin[i] || k >= s.end[i])) continue;
      const VF x = hn::Set(d, a[i * a_row + k * a_step]);
#pragma GCC unroll 2
      for (int j = 0; j < Vectors; ++j) t.sum[i][j] = hn::MulAdd(x, row[j], t.sum[i][j]);
    }
  }
  return t;
}

// c[i, :] = c[i, :] * factor[i] + Σ over the row's stretch of a[i, k] b[k, :], for rows whose
// stretch is not empty. b: [·, padded], c: rows of `padded`.
template <int Rows>
HWY_INLINE void add_ragged(const float* a, Index a_row, Index a_step, const float* b, Index padded,
                           const Stretch& s, const float* factor, float* c) {
  const DF d;
  Index j = 0;
  for (; j + kPairWidth <= padded; j += kPairWidth) {
    const auto t = ragged_product<Rows, kPairs>(a, a_row, a_step, b + j, padded, s);
    for (int i = 0; i < Rows; ++i) {
      if (s.begin[i] >= s.end[i]) continue;
      const VF f = hn::Set(d, factor[i]);
      for (int v = 0; v < kPairs; ++v) {
        float* to = c + i * padded + j + v * kFloatLanes;
        hn::StoreU(hn::MulAdd(hn::LoadU(d, to), f, t.sum[i][v]), d, to);
      }
    }
  }
  for (; j < padded; j += kFloatLanes) {
    const auto t = ragged_product<Rows, 1>(a, a_row, a_step, b + j, padded, s);
    for (int i = 0; i < Rows; ++i) {
      if (s.begin[i] >= s.end[i]) continue;
      float* to = c + i * padded + j;
      hn::StoreU(hn::MulAdd(hn::LoadU(d, to), hn::Set(d, factor[i]), t.sum[i][0]), d, to);
    }
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
