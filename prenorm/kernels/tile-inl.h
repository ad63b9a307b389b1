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

// Calls use(sum, i, j) for each vector of the tile: row i, columns from j vectors on.
template <int Rows, int Vectors, typename Use>
HWY_INLINE void each_sum(Tile<Rows, Vectors>& t, const Use& use) {
  each<Rows>([&](auto i) PRENORM_INLINED {
    each<Vectors>([&](auto j) PRENORM_INLINED { use(t.sum[i][j], i, j); });
  });
}

template <int Rows, int Vectors>
HWY_INLINE Tile<Rows, Vectors> zero_tile() {
  Tile<Rows, Vectors> t;
  each_sum(t, [](VF& sum, auto, auto) PRENORM_INLINED { sum = hn::Zero(DF()); });
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
    each<Vectors>([&](auto j) PRENORM_INLINED { row[j] = hn::Load(d, b + j * kFloatLanes); });
    if constexpr (ahead != 0) {
      constexpr int kLines = ceil_div(Vectors * kFloatLanes, Index{16});
      each<kLines>([&](auto line) PRENORM_INLINED { __builtin_prefetch(b + line * 16 + ahead); });
    }
    each<Rows>([&](auto i) PRENORM_INLINED {
      const VF x = hn::Set(d, a[i * a_row]);
      each<Vectors>([&](auto j) PRENORM_INLINED {
        t.sum[i][j] = hn::MulAdd(x, row[j], t.sum[i][j]);
      });
    });
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
