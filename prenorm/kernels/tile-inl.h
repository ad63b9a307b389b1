// The inner product of every matrix kernel: a tile of a few rows against a few vectors of columns,
// each element one chain of fused multiply-adds in ascending k. Per-target include.
#if defined(PRENORM_KERNELS_TILE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PRENORM_KERNELS_TILE_INL_H
#undef PRENORM_KERNELS_TILE_INL_H
#else
#define PRENORM_KERNELS_TILE_INL_H
#endif

#include "prenorm/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace prenorm::kernels::HWY_NAMESPACE {
#if PRENORM_FMA_TARGET

// The tile that fills the registers: accumulators, one row of b and one broadcast value of a.
#if HWY_TARGET == HWY_AVX3
constexpr int kTileRows = 8, kTileVectors = 3;
#elif HWY_TARGET == HWY_AVX2
constexpr int kTileRows = 6, kTileVectors = 2;
#else
constexpr int kTileRows = 8, kTileVectors = 2;
#endif
constexpr Index kTileWidth = kTileVectors * kFloatLanes;

template <int Rows, int Vectors>
struct Tile {
  // Written out, because GCC compiles an implicit one without the target's options.
  HWY_INLINE Tile() {}
  VF sum[Rows][Vectors];
};

template <int Rows, int Vectors>
HWY_INLINE Tile<Rows, Vectors> zero_tile() {
  const DF d;
  Tile<Rows, Vectors> t;
#pragma GCC unroll 8
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < Vectors; ++j) t.sum[i][j] = hn::Zero(d);
  }
  return t;
}

// sum[i][j] goes on with Σ_k a[i * a_row + k * a_step] * b[k * b_row + column j], k ascending from
// 0. `b` is aligned to a vector and so is b_row. `ahead`: floats from an element of b to the one
// that is fetched meanwhile, for a b that comes from memory and is used but once; 0: none.
template <int Rows, int Vectors, Index ahead = 0>
HWY_INLINE void add_product(Tile<Rows, Vectors>& t, const float* HWY_RESTRICT a, Index a_row,
                            Index a_step, const float* HWY_RESTRICT b, Index b_row, Index k) {
  const DF d;
#pragma GCC unroll 2
  for (Index kk = 0; kk < k; ++kk) {
    VF row[Vectors];
#pragma GCC unroll 4
    for (int j = 0; j < Vectors; ++j) row[j] = hn::Load(d, b + j * kFloatLanes);
    if constexpr (ahead != 0) {
#pragma GCC unroll 4
      for (int j = 0; j < Vectors * kFloatLanes; j += 16) __builtin_prefetch(b + j + ahead);
    }
#pragma GCC unroll 8
    for (int i = 0; i < Rows; ++i) {
      const VF x = hn::Set(d, a[i * a_row]);
#pragma GCC unroll 4
      for (int j = 0; j < Vectors; ++j) t.sum[i][j] = hn::MulAdd(x, row[j], t.sum[i][j]);
    }
    a += a_step;
    b += b_row;
  }
}

// The same from zero.
template <int Rows, int Vectors, Index ahead = 0>
HWY_INLINE Tile<Rows, Vectors> tile_product(const float* HWY_RESTRICT a, Index a_row, Index a_step,
                                            const float* HWY_RESTRICT b, Index b_row, Index k) {
  auto t = zero_tile<Rows, Vectors>();
  add_product<Rows, Vectors, ahead>(t, a, a_row, a_step, b, b_row, k);
  return t;
}

#endif  // PRENORM_FMA_TARGET
}  // namespace prenorm::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per-target guard
