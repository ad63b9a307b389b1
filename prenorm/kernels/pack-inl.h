// Copies of a matrix in the order in which the tiles read it. Per-target include.
#if defined(PRENORM_KERNELS_PACK_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PRENORM_KERNELS_PACK_INL_H
#undef PRENORM_KERNELS_PACK_INL_H
#else
#define PRENORM_KERNELS_PACK_INL_H
#endif

#include <algorithm>

#include "prenorm/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace prenorm::kernels::HWY_NAMESPACE {
#if PRENORM_FMA_TARGET

using D4 = hn::FixedTag<float, 4>;

// to[k * to_row + j] = from[k * from_row + j] for k < rows, j < columns; the columns from there to
// `padded` become zero.
HWY_INLINE void pack_rows(const float* HWY_RESTRICT from, Index from_row, Index rows, Index columns,
                          Index padded, float* HWY_RESTRICT to, Index to_row) {
  const DF d;
  const Index whole = columns / kFloatLanes * kFloatLanes;
  for (Index k = 0; k < rows; ++k) {
    for (Index j = 0; j < whole; j += kFloatLanes) hn::StoreU(hn::LoadU(d, from + j), d, to + j);
    for (Index j = whole; j < columns; ++j) to[j] = from[j];
    for (Index j = columns; j < padded; ++j) to[j] = 0.0f;
    from += from_row;
    to += to_row;
  }
}

// Transposes a 4 × 4 block.
HWY_INLINE void transpose4(const float* HWY_RESTRICT from, Index from_row, float* HWY_RESTRICT to,
                           Index to_row) {
  const D4 d;
  const hn::Repartition<double, D4> dd;
  const auto r0 = hn::LoadU(d, from), r1 = hn::LoadU(d, from + from_row);
  const auto r2 = hn::LoadU(d, from + 2 * from_row), r3 = hn::LoadU(d, from + 3 * from_row);
  const auto a = hn::BitCast(dd, hn::InterleaveLower(d, r0, r1));
  const auto b = hn::BitCast(dd, hn::InterleaveLower(d, r2, r3));
  const auto e = hn::BitCast(dd, hn::InterleaveUpper(d, r0, r1));
  const auto f = hn::BitCast(dd, hn::InterleaveUpper(d, r2, r3));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(dd, a, b)), d, to);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(dd, a, b)), d, to + to_row);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(dd, e, f)), d, to + 2 * to_row);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(dd, e, f)), d, to + 3 * to_row);
}

// to[k * to_row + j] = from[j * from_row + k] for k < rows, j < columns; the columns from there to
// `padded` become zero.
HWY_INLINE void pack_transposed(const float* HWY_RESTRICT from, Index from_row, Index rows,
                                Index columns, Index padded, float* HWY_RESTRICT to, Index to_row) {
  constexpr Index kLine = 16;  // floats of a cache line, of which all are taken while it is near
  const Index whole_columns = columns / 4 * 4, whole_rows = rows / 4 * 4;
  for (Index k0 = 0; k0 < whole_rows; k0 += kLine) {
    const Index end = std::min(whole_rows, k0 + kLine);
    for (Index j = 0; j < whole_columns; j += 4) {
      for (Index k = k0; k < end; k += 4) {
        transpose4(from + j * from_row + k, from_row, to + k * to_row + j, to_row);
      }
    }
  }
  for (Index k = 0; k < rows; ++k) {
    const Index first = k < whole_rows ? whole_columns : 0;
    for (Index j = first; j < columns; ++j) to[k * to_row + j] = from[j * from_row + k];
    for (Index j = columns; j < padded; ++j) to[k * to_row + j] = 0.0f;
  }
}

#endif  // PRENORM_FMA_TARGET
}  // namespace prenorm::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per-target guard
