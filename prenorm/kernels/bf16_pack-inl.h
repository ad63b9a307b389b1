// Operands of the products in bfloat16 (bf16_target.h) from matrices of floats. Per-target include.
#if defined(PRENORM_KERNELS_BF16_PACK_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PRENORM_KERNELS_BF16_PACK_INL_H
#undef PRENORM_KERNELS_BF16_PACK_INL_H
#else
#define PRENORM_KERNELS_BF16_PACK_INL_H
#endif

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "prenorm/base/bfloat16.h"
#include "prenorm/kernels/bf16_target.h"
#include "prenorm/kernels/pack-inl.h"

HWY_BEFORE_NAMESPACE();
namespace prenorm::kernels::HWY_NAMESPACE {
#if PRENORM_FMA_TARGET

using DU32 = hn::RebindToUnsigned<DF>;
using DU16 = hn::Rebind<std::uint16_t, DF>;

// The number's bfloat16 in the upper half, as bf16_from_float, and something in the lower.
HWY_INLINE hn::Vec<DU32> rounded_bits(VF x, VF floor) {
  const DU32 du;
  const hn::Vec<DU32> bits = hn::BitCast(du, x);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
  const auto nearest = hn::Add(hn::Add(bits, hn::Set(du, 0x7fffu)), odd);
  const auto quiet = hn::Or(bits, hn::Set(du, 0x400000u));
  const auto rounded = hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(x)), quiet, nearest);
  return hn::IfThenZeroElse(hn::RebindMask(du, hn::Lt(hn::Abs(x), floor)), rounded);
}

HWY_INLINE std::uint16_t rounded(float x, float floor) {
  return std::abs(x) < floor ? std::uint16_t{0} : bf16_from_float(x);
}

HWY_INLINE void store_rounded(VF x, VF floor, std::uint16_t* to) {
  const auto upper = hn::ShiftRight<16>(rounded_bits(x, floor));
  hn::StoreU(hn::DemoteTo(DU16(), hn::BitCast(DI(), upper)), DU16(), to);
}

inline void pack_row(const float* x, Index count, float floor, std::uint16_t* to) {
  const DF d;
  const VF least = hn::Set(d, floor);
  Index i = 0;
  for (; i + kFloatLanes <= count; i += kFloatLanes) {
    store_rounded(hn::LoadU(d, x + i), least, to + i);
  }
  for (; i < count; ++i) to[i] = rounded(x[i], floor);
}

// 16 pairs of k of 16 columns, or the other way round.
struct Words {
  alignas(64) std::uint32_t at[16][16];
};

// at[j][i] = pair (2 j, 2 j + 1) of row i + … of x [k, columns]: `columns` at most 16.
HWY_INLINE void pair_rows(const float* x, Index x_row, Index depth, Index columns, float floor,
                          std::uint32_t* to, Index to_row) {
  const DF d;
  const DU32 du;
  if (depth == kBf16Depth && columns == kBf16Panel) {
    const VF least = hn::Set(d, floor);
    const auto upper = hn::Set(du, 0xffff0000u);
    for (Index j = 0; j < kBf16Depth / 2; ++j, x += 2 * x_row, to += to_row) {
#pragma GCC unroll 4
      for (Index i = 0; i < kBf16Panel; i += kFloatLanes) {
        const auto even = hn::ShiftRight<16>(rounded_bits(hn::LoadU(d, x + i), least));
        const auto odd = hn::And(rounded_bits(hn::LoadU(d, x + x_row + i), least), upper);
        hn::StoreU(hn::Or(even, odd), du, to + i);
      }
    }
    return;
  }
  for (Index j = 0; j < kBf16Depth / 2; ++j, to += to_row) {
    for (Index i = 0; i < kBf16Panel; ++i) {
      const auto half = [&](Index k) -> std::uint32_t {
        return k < depth && i < columns ? rounded(x[k * x_row + i], floor) : 0u;
      };
      to[i] = half(2 * j) | half(2 * j + 1) << 16;
    }
  }
}

// to[j][i] = from[i][j] of 16 × 16 words.
HWY_INLINE void transpose_words(const Words& from, std::uint32_t* to, Index to_row) {
  const auto* source = reinterpret_cast<const float*>(from.at);
  auto* target = reinterpret_cast<float*>(to);
  for (Index i = 0; i < 16; i += 4) {
    for (Index j = 0; j < 16; j += 4) {
      transpose4(source + i * 16 + j, 16, target + j * to_row + i, to_row);
    }
  }
}

inline void pack_left_transposed(const float* x, Index x_row, Index depth, Index rows, float floor,
                                 std::uint16_t* to, Index to_row) {
  Words words;
  for (Index m = 0; m < round_up(rows, kBf16Side); m += kBf16Panel) {
    const Index here = std::clamp<Index>(rows - m, 0, kBf16Panel);
    pair_rows(x + m, x_row, depth, here, floor, words.at[0], 16);
    transpose_words(words, reinterpret_cast<std::uint32_t*>(to + m * to_row), to_row / 2);
  }
}

inline void transpose_left(const std::uint16_t* x, Index x_row, Index rows, std::uint16_t* to,
                           Index to_row) {
  const DU32 du;
  Words words;
  for (Index m = 0; m < round_up(rows, kBf16Side); m += kBf16Panel) {
    for (Index j = 0; j < kBf16Depth / 2; ++j) {
      const std::uint16_t* even = x + 2 * j * x_row + m;
#pragma GCC unroll 4
      for (Index i = 0; i < kBf16Panel; i += kFloatLanes) {
        const auto low = hn::PromoteTo(du, hn::LoadU(DU16(), even + i));
        const auto high = hn::PromoteTo(du, hn::LoadU(DU16(), even + x_row + i));
        hn::Store(hn::Or(low, hn::ShiftLeft<16>(high)), du, words.at[j] + i);
      }
    }
    transpose_words(words, reinterpret_cast<std::uint32_t*>(to + m * to_row), to_row / 2);
  }
}

inline void pack_right(const float* x, Index x_row, Index depth, Index columns, float floor,
                       std::uint16_t* to, Index to_panel) {
  for (Index n = 0; n < round_up(columns, kBf16Side); n += kBf16Panel, to += to_panel) {
    const Index here = std::clamp<Index>(columns - n, 0, kBf16Panel);
    pair_rows(x + n, x_row, depth, here, floor, reinterpret_cast<std::uint32_t*>(to), kBf16Panel);
  }
}

inline void pack_right_transposed(const float* x, Index x_row, Index depth, Index columns,
                                  float floor, std::uint16_t* to, Index to_panel) {
  Words words;
  for (Index n = 0; n < round_up(columns, kBf16Side); n += kBf16Panel, to += to_panel) {
    const Index here = std::clamp<Index>(columns - n, 0, kBf16Panel);
    for (Index i = 0; i < kBf16Panel; ++i) {
      auto* row = reinterpret_cast<std::uint16_t*>(words.at[i]);
      if (i < here) pack_row(x + (n + i) * x_row, depth, floor, row);
      const Index count = i < here ? depth : 0;
      std::fill(row + count, row + kBf16Depth, std::uint16_t{0});
    }
    transpose_words(words, reinterpret_cast<std::uint32_t*>(to), kBf16Panel);
  }
}

#endif  // PRENORM_FMA_TARGET
}  // namespace prenorm::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per-target guard
