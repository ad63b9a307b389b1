#include "prenorm/kernels/matmul_wide.h"

#include <algorithm>
#include <cmath>

#ifndef PRENORM_KERNELS_MATMUL_WIDE_TARGET  // this file is read once for each target
#define PRENORM_KERNELS_MATMUL_WIDE_TARGET
namespace prenorm::kernels {

struct MatmulWideTarget {
  void (*wide)(Index m, Index k, Index n, Index stride, const double* a, const float* b, double* c);
  void (*wide_both)(Index m, Index k, Index n, Index stride, const double* a, const double* b,
                    double* c);
  void (*single)(Index m, Index k, Index n, Index stride, const float* a, const float* b, float* c);
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

constexpr int kVectors = 2;  // columns of a tile, in vectors
constexpr int kTileRows =
    HWY_TARGET == HWY_AVX3 ? 8 : 4;  // as many sums as there are registers for
constexpr Index kDepth = 128;        // rows of b that are copied at a time

// D: the vectors of the sums' type, DD or DF.
template <class D>
constexpr Index lanes_of(D) {
  return static_cast<Index>(sizeof(hn::Vec<D>) / sizeof(hn::TFromD<D>));
}
template <class D>
constexpr Index kColumns = kVectors* lanes_of(D());

// A tile of kRows rows: the chains go on from c unless `first`. panel: [depth, kColumns]; the rows
// of c are n apart.
template <int kRows, class D, typename T = hn::TFromD<D>>
HWY_INLINE void tile(Index depth, Index k, Index n, bool first, const T* a, const T* panel, T* c) {
  const D d;
  using V = hn::Vec<D>;
  V sum[kRows * kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      sum[r * kVectors + v] = first ? hn::Zero(d) : hn::LoadU(d, c + r * n + v * lanes_of(d));
    }
  }
  for (Index i = 0; i < depth; ++i) {
    const V w_0 = hn::Load(d, panel + i * kColumns<D>);
    const V w_1 = hn::Load(d, panel + i * kColumns<D> + lanes_of(d));
    for (int r = 0; r < kRows; ++r) {
      const V x = hn::Set(d, a[r * k + i]);
      sum[r * kVectors] = hn::MulAdd(x, w_0, sum[r * kVectors]);
      sum[r * kVectors + 1] = hn::MulAdd(x, w_1, sum[r * kVectors + 1]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      hn::StoreU(sum[r * kVectors + v], d, c + r * n + v * lanes_of(d));
    }
  }
}

HWY_INLINE VD load_as(DD d, const float* b) { return hn::PromoteTo(d, hn::LoadU(DHalf(), b)); }
HWY_INLINE VD load_as(DD d, const double* b) { return hn::LoadU(d, b); }
HWY_INLINE VF load_as(DF d, const float* b) { return hn::LoadU(d, b); }

// Columns of b in the sums' type and close together: rows that are a power of two apart share cache
// lines.
template <class D, typename B>
HWY_INLINE void copy(D d, Index depth, Index n, const B* b, hn::TFromD<D>* panel) {
  for (Index i = 0; i < depth; ++i) {
    for (int v = 0; v < kVectors; ++v) {
      hn::Store(load_as(d, b + i * n + v * lanes_of(d)), d,
                panel + i * kColumns<D> + v * lanes_of(d));
    }
  }
}

// The columns that fill no tile.
template <typename T, typename B>
HWY_INLINE void edge(Index m, Index depth, Index k, Index n, Index stride, bool first, const T* a,
                     const B* b, T* c) {
  for (Index r = 0; r < m; ++r) {
    for (Index o = 0; o < n; ++o) {
      T sum = first ? T(0) : c[r * stride + o];
      for (Index i = 0; i < depth; ++i) {
        sum = std::fma(a[r * k + i], static_cast<T>(b[i * stride + o]), sum);
      }
      c[r * stride + o] = sum;
    }
  }
}

template <class D, typename B, typename T = hn::TFromD<D>>
void matmul(Index m, Index k, Index n, Index stride, const T* a, const B* b, T* c) {
  alignas(64) T panel[kDepth * kColumns<D>];
  for (Index r = 0; r < m && k == 0; ++r) std::fill_n(c + r * stride, n, T(0));
  const Index tiled = n - n % kColumns<D>;
  for (Index i = 0; i < k; i += kDepth) {
    const Index depth = std::min(kDepth, k - i);
    for (Index o = 0; o < tiled; o += kColumns<D>) {
      copy(D(), depth, stride, b + i * stride + o, panel);
      Index r = 0;
      for (; r + kTileRows <= m; r += kTileRows) {
        tile<kTileRows, D>(depth, k, stride, i == 0, a + r * k + i, panel, c + r * stride + o);
      }
      if (kTileRows > 4 && r + 4 <= m) {
        tile<4, D>(depth, k, stride, i == 0, a + r * k + i, panel, c + r * stride + o);
        r += 4;
      }
      for (; r < m; ++r) {
        tile<1, D>(depth, k, stride, i == 0, a + r * k + i, panel, c + r * stride + o);
      }
    }
    edge(m, depth, k, n - tiled, stride, i == 0, a + i, b + i * stride + tiled, c + tiled);
  }
}

}  // namespace

constexpr MatmulWideTarget kMatmulWideTarget = {matmul<DD, float>, matmul<DD, double>,
                                                matmul<DF, float>};
#endif
}  // namespace prenorm::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace prenorm::kernels {

PRENORM_TARGET_TABLE(MatmulWideTarget, matmul_wide_target, kMatmulWideTarget)

void matmul_wide(Isa isa, Index m, Index k, Index n, const double* a, const float* b, double* c) {
  matmul_wide_target(isa).wide(m, k, n, n, a, b, c);
}

void matmul_wide_columns(Isa isa, Index m, Index k, Index n, Index stride, const double* a,
                         const float* b, double* c) {
  matmul_wide_target(isa).wide(m, k, n, stride, a, b, c);
}

void matmul_wide(Isa isa, Index m, Index k, Index n, const double* a, const double* b, double* c) {
  matmul_wide_target(isa).wide_both(m, k, n, n, a, b, c);
}

void matmul_single(Isa isa, Index m, Index k, Index n, const float* a, const float* b, float* c) {
  matmul_wide_target(isa).single(m, k, n, n, a, b, c);
}

}  // namespace prenorm::kernels
#endif
