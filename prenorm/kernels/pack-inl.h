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

// Four rows of 4 × 4 blocks, each block transposed: what was column t of a block is its row in
// row[t].
template <class D>
HWY_INLINE void transpose_blocks(D d, hn::Vec<D> (&row)[4]) {
  const hn::Repartition<double, D> dd;
  const auto a = hn::BitCast(dd, hn::InterleaveLower(d, row[0], row[1]));
  const auto b = hn::BitCast(dd, hn::InterleaveLower(d, row[2], row[3]));
  const auto e = hn::BitCast(dd, hn::InterleaveUpper(d, row[0], row[1]));
  const auto f = hn::BitCast(dd, hn::InterleaveUpper(d, row[2], row[3]));
  row[0] = hn::BitCast(d, hn::InterleaveLower(dd, a, b));
  row[1] = hn::BitCast(d, hn::InterleaveUpper(dd, a, b));
  row[2] = hn::BitCast(d, hn::InterleaveLower(dd, e, f));
  row[3] = hn::BitCast(d, hn::InterleaveUpper(dd, e, f));
}

// Transposes a 4 × 4 block.
HWY_INLINE void transpose4(const float* HWY_RESTRICT from, Index from_row, float* HWY_RESTRICT to,
                           Index to_row) {
  const D4 d;
  hn::Vec<D4> row[4];
  for (Index i = 0; i < 4; ++i) row[i] = hn::LoadU(d, from + i * from_row);
  transpose_blocks(d, row);
  for (Index i = 0; i < 4; ++i) hn::StoreU(row[i], d, to + i * to_row);
}

constexpr int kBlocks = static_cast<int>(kFloatLanes / 4);  // of a vector

// Vectors of blocks, to[b] = block b of from[0], from[1], …
HWY_INLINE void gather_blocks(const VF (&from)[kBlocks], VF (&to)[kBlocks]) {
#if HWY_TARGET == HWY_AVX3
  const DF d;
  const VF even01 = hn::OddEvenBlocks(hn::SwapAdjacentBlocks(from[1]), from[0]);
  const VF odd01 = hn::OddEvenBlocks(from[1], hn::SwapAdjacentBlocks(from[0]));
  const VF even23 = hn::OddEvenBlocks(hn::SwapAdjacentBlocks(from[3]), from[2]);
  const VF odd23 = hn::OddEvenBlocks(from[3], hn::SwapAdjacentBlocks(from[2]));
  to[0] = hn::ConcatLowerLower(d, even23, even01);
  to[1] = hn::ConcatLowerLower(d, odd23, odd01);
  to[2] = hn::ConcatUpperUpper(d, even23, even01);
  to[3] = hn::ConcatUpperUpper(d, odd23, odd01);
#elif HWY_TARGET == HWY_AVX2
  const DF d;
  to[0] = hn::ConcatLowerLower(d, from[1], from[0]);
  to[1] = hn::ConcatUpperUpper(d, from[1], from[0]);
#else
  to[0] = from[0];
#endif
}

// Transposes a block of a vector's lanes both ways.
HWY_INLINE void transpose_vectors(const float* HWY_RESTRICT from, Index from_row,
                                  float* HWY_RESTRICT to, Index to_row) {
  const DF d;
  VF row[kBlocks][4];
#pragma GCC unroll 4
  for (int q = 0; q < kBlocks; ++q) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) row[q][i] = hn::LoadU(d, from + (4 * q + i) * from_row);
    transpose_blocks(d, row[q]);
  }
#pragma GCC unroll 4
  for (int t = 0; t < 4; ++t) {
    VF in[kBlocks], out[kBlocks];
#pragma GCC unroll 4
    for (int q = 0; q < kBlocks; ++q) in[q] = row[q][t];
    gather_blocks(in, out);
#pragma GCC unroll 4
    for (int b = 0; b < kBlocks; ++b) hn::StoreU(out[b], d, to + (4 * b + t) * to_row);
  }
}

// to[k * to_row + j] = from[j * from_row + k] for k < rows, j < columns; the columns from there to
// `padded` become zero.
HWY_INLINE void pack_transposed(const float* HWY_RESTRICT from, Index from_row, Index rows,
                                Index columns, Index padded, float* HWY_RESTRICT to, Index to_row) {
  const Index vector_columns = columns / kFloatLanes * kFloatLanes;
  const Index vector_rows = rows / kFloatLanes * kFloatLanes;
  const Index whole_columns = columns / 4 * 4, whole_rows = rows / 4 * 4;
  for (Index j = 0; j < vector_columns; j += kFloatLanes) {
    for (Index k = 0; k < vector_rows; k += kFloatLanes) {
      transpose_vectors(from + j * from_row + k, from_row, to + k * to_row + j, to_row);
    }
  }
  for (Index j = 0; j < whole_columns; j += 4) {
    for (Index k = j < vector_columns ? vector_rows : 0; k < whole_rows; k += 4) {
      transpose4(from + j * from_row + k, from_row, to + k * to_row + j, to_row);
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
