#include "prenorm/kernels/matmul_wide.h"

#include <algorithm>
#include <cmath>

#ifndef PRENORM_KERNELS_MATMUL_WIDE_TARGET  // this file is read once for each target
#define PRENORM_KERNELS_MATMUL_WIDE_TARGET
namespace prenorm::kernels {

struct MatmulWideTarget {
  void (*matmul)(Index m, Index k, Index n, const double* a, const float* b, double* c);
};

}  // namespace prenorm::kernels
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "prenorm/kernels/matmul_wide.cc"
#include "prenorm/kernels/targets.h"
// The per-target parts come after the target has been chosen.
#include "prenorm/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace prenorm::kernels::HWY_NAMESPACE {
#if PRENORM_FMA_TARGET
namespace {

constexpr int kWideVectors = 2;  // columns of a tile, in vectors
constexpr Index kWideColumns = kWideVectors * kDoubleLanes;
constexpr int kTileRows =
    HWY_TARGET == HWY_AVX3 ? 8 : 4;  // as many sums as there are registers for
constexpr Index kDepth = 128;        // rows of b that are widened at a time

// A tile of kRows rows: the chains go on from c unless `first`. panel: [depth, kWideColumns].
template <int kRows>
HWY_INLINE void tile(Index depth, Index k, Index n, bool first, const double* a,
                     const double* panel, double* c) {
  const DD dd;
  VD sum[kRows * kWideVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kWideVectors; ++v) {
      sum[r * kWideVectors + v] =
          first ? hn::Zero(dd) : hn::LoadU(dd, c + r * n + v * kDoubleLanes);
    }
  }
  for (Index i = 0; i < depth; ++i) {
    const VD w_0 = hn::Load(dd, panel + i * kWideColumns);
    const VD w_1 = hn::Load(dd, panel + i * kWideColumns + kDoubleLanes);
    for (int r = 0; r < kRows; ++r) {
      const VD x = hn::Set(dd, a[r * k + i]);
      sum[r * kWideVectors] = hn::MulAdd(x, w_0, sum[r * kWideVectors]);
      sum[r * kWideVectors + 1] = hn::MulAdd(x, w_1, sum[r * kWideVectors + 1]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kWideVectors; ++v) {
      hn::StoreU(sum[r * kWideVectors + v], dd, c + r * n + v * kDoubleLanes);
    }
  }
}

// Columns of b, widened and close together: rows that are a power of two apart share cache lines.
HWY_INLINE void widen(Index depth, Index n, const float* b, double* panel) {
  for (Index i = 0; i < depth; ++i) {
    for (int v = 0; v < kWideVectors; ++v) {
      hn::Store(hn::PromoteTo(DD(), hn::LoadU(DHalf(), b + i * n + v * kDoubleLanes)), DD(),
                panel + i * kWideColumns + v * kDoubleLanes);
    }
  }
}

// The columns that fill no tile.
HWY_INLINE void edge(Index m, Index depth, Index k, Index n, Index from, bool first,
                     const double* a, const float* b, double* c) {
  for (Index r = 0; r < m; ++r) {
    for (Index o = from; o < n; ++o) {
      double sum = first ? 0.0 : c[r * n + o];
      for (Index i = 0; i < depth; ++i) {
        sum = std::fma(a[r * k + i], static_cast<double>(b[i * n + o]), sum);
      }
      c[r * n + o] = sum;
    }
  }
}

void matmul(Index m, Index k, Index n, const double* a, const float* b, double* c) {
  alignas(64) double panel[kDepth * kWideColumns];
  if (k == 0) std::fill_n(c, m * n, 0.0);
  const Index tiled = n - n % kWideColumns;
  for (Index i = 0; i < k; i += kDepth) {
    const Index depth = std::min(kDepth, k - i);
    for (Index o = 0; o < tiled; o += kWideColumns) {
      widen(depth, n, b + i * n + o, panel);
      Index r = 0;
      for (; r + kTileRows <= m; r += kTileRows) {
        tile<kTileRows>(depth, k, n, i == 0, a + r * k + i, panel, c + r * n + o);
      }
      for (; r < m; ++r) tile<1>(depth, k, n, i == 0, a + r * k + i, panel, c + r * n + o);
    }
    edge(m, depth, k, n, tiled, i == 0, a + i, b + i * n, c);
  }
}

}  // namespace

constexpr MatmulWideTarget kMatmulWideTarget = {matmul};
#endif
}  // namespace prenorm::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace prenorm::kernels {

PRENORM_TARGET_TABLE(MatmulWideTarget, matmul_wide_target, kMatmulWideTarget)

void matmul_wide(Isa isa, Index m, Index k, Index n, const double* a, const float* b, double* c) {
  matmul_wide_target(isa).matmul(m, k, n, a, b, c);
}

}  // namespace prenorm::kernels
#endif
