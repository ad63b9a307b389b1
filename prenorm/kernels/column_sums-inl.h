// Sums over a matrix's rows, the tokens, each column's in double. Per-target include.
#if defined(PRENORM_KERNELS_COLUMN_SUMS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PRENORM_KERNELS_COLUMN_SUMS_INL_H
#undef PRENORM_KERNELS_COLUMN_SUMS_INL_H
#else
#define PRENORM_KERNELS_COLUMN_SUMS_INL_H
#endif

#include <algorithm>

#include "prenorm/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace prenorm::kernels::HWY_NAMESPACE {
#if PRENORM_FMA_TARGET
namespace {

// kVectors times sixteen columns.
template <int kVectors>
HWY_INLINE void add_column_group(const float* x, Index x_row, Index rows, double* totals) {
  D16 sum[kVectors];
  each<kVectors>([&](auto v) PRENORM_INLINED { sum[v] = load_doubles(totals + v * kLanes); });
  for (Index m = 0; m < rows; ++m) {
    each<kVectors>(
        [&](auto v) PRENORM_INLINED { sum[v] = add(sum[v], load_d(x + m * x_row + v * kLanes)); });
  }
  each<kVectors>([&](auto v) PRENORM_INLINED { store_doubles(sum[v], totals + v * kLanes); });
}

// totals[j] goes on with Σ_m x[m, j], m ascending.
HWY_INLINE void add_to_totals(const float* x, Index x_row, Index rows, Index columns,
                              double* totals) {
  constexpr int kTogether = 3;  // whole lines of a row
  Index j = 0;
  for (; j + kTogether * kLanes <= columns; j += kTogether * kLanes) {
    add_column_group<kTogether>(x + j, x_row, rows, totals + j);
  }
  for (; j + kLanes <= columns; j += kLanes) {
    add_column_group<1>(x + j, x_row, rows, totals + j);
  }
  if (j == columns) return;
  alignas(64) double rest[kLanes] = {};
  std::copy_n(totals + j, columns - j, rest);
  D16 sum = load_doubles(rest);
  for (Index m = 0; m < rows; ++m)
    sum = add(sum, load_d_part(x + m * x_row + j, columns - j, 0.0f));
  store_doubles(sum, rest);
  std::copy_n(rest, columns - j, totals + j);
}

// sums[j] += totals[j], rounded once.
HWY_INLINE void close_totals(const double* totals, Index columns, float* sums) {
  for (Index j = 0; j < columns; ++j) {
    sums[j] = static_cast<float>(static_cast<double>(sums[j]) + totals[j]);
  }
}

}  // namespace
#endif  // PRENORM_FMA_TARGET
}  // namespace prenorm::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per-target guard
