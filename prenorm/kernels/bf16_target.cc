#include "prenorm/kernels/bf16_target.h"

#include <algorithm>
#include <cstring>

#include "prenorm/kernels/bf16_units_target.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "prenorm/kernels/bf16_target.cc"
#include "prenorm/kernels/targets.h"
// The per-target parts come after the target has been chosen.
#include "prenorm/kernels/bf16_pack-inl.h"
#include "prenorm/kernels/matmul_finish-inl.h"

HWY_BEFORE_NAMESPACE();
namespace prenorm::kernels::HWY_NAMESPACE {
#if PRENORM_FMA_TARGET
namespace {

// What is computed together: some rows against some panels, as many as there are registers for.
#if HWY_TARGET == HWY_AVX3
constexpr int kDotRows = 8, kTileRows = 4, kPanels = 2;
#elif HWY_TARGET == HWY_AVX2
constexpr int kDotRows = 4, kTileRows = 2, kPanels = 1;
#else
constexpr int kDotRows = 4, kTileRows = 2, kPanels = 1;
#endif
constexpr int kVectors = kPanels * kFloatVectors;

// Both numbers of each pair, widened.
struct Pair {
  VF even, odd;
};
HWY_INLINE Pair widen_pair(hn::Vec<DU32> words) {
  const DU32 du;
  return {hn::BitCast(DF(), hn::ShiftLeft<16>(words)),
          hn::BitCast(DF(), hn::And(words, hn::Set(du, 0xffff0000u)))};
}
HWY_INLINE Pair left_pair(const std::uint16_t* left) {
  std::uint32_t word;
  std::memcpy(&word, left, sizeof(word));
  return widen_pair(hn::Set(DU32(), word));
}
HWY_INLINE Pair right_pair(const Bf16Block& b, Index panel, Index k, int vector) {
  const std::uint16_t* at = b.right + (panel + vector / kFloatVectors) * b.right_panel +
                            k * kBf16Panel + vector % kFloatVectors * 2 * kFloatLanes;
  return widen_pair(hn::LoadU(DU32(), reinterpret_cast<const std::uint32_t*>(at)));
}

// Columns of c, from a panel on.
HWY_INLINE Index column(Index panel, int vector) {
  return panel * kBf16Panel + vector * kFloatLanes;
}

// One chain from what is there, the odd k of a pair before the even one.
template <int Rows>
HWY_INLINE void dot_rows(const Bf16Block& b, Index row, Index panel) {
  const DF d;
  VF sum[Rows * kVectors];
  for (int i = 0; i < Rows; ++i) {
    for (int v = 0; v < kVectors; ++v) {
      sum[i * kVectors + v] =
          b.from == nullptr ? hn::Zero(d)
                            : hn::LoadU(d, b.from + (row + i) * b.from_row + column(panel, v));
    }
  }
  const std::uint16_t* left = b.left + row * b.left_row;
  for (Index k = 0; k < b.depth; k += 2) {
    Pair right[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) right[v] = right_pair(b, panel, k, v);
#pragma GCC unroll 8
    for (int i = 0; i < Rows; ++i) {
      const Pair x = left_pair(left + i * b.left_row + k);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        VF& s = sum[i * kVectors + v];
        s = hn::MulAdd(x.even, right[v].even, hn::MulAdd(x.odd, right[v].odd, s));
      }
    }
  }
  for (int i = 0; i < Rows; ++i) {
    for (int v = 0; v < kVectors; ++v) {
      hn::StoreU(sum[i * kVectors + v], d, b.to + (row + i) * b.to_row + column(panel, v));
    }
  }
}

// Of 32 k, the even ones and the odd ones each a chain from zero; their sum is added to what is
// there.
template <int Rows>
HWY_INLINE void tile_step(const Bf16Block& b, Index row, Index panel, Index k0, const float* from,
                          Index from_row) {
  const DF d;
  VF even[Rows * kVectors], odd[Rows * kVectors];
  for (int i = 0; i < Rows * kVectors; ++i) even[i] = odd[i] = hn::Zero(d);
  const std::uint16_t* left = b.left + row * b.left_row;
  for (Index k = k0; k < k0 + kBf16Depth; k += 2) {
    Pair right[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) right[v] = right_pair(b, panel, k, v);
#pragma GCC unroll 8
    for (int i = 0; i < Rows; ++i) {
      const Pair x = left_pair(left + i * b.left_row + k);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        const int at = i * kVectors + v;
        even[at] = hn::MulAdd(x.even, right[v].even, even[at]);
        odd[at] = hn::MulAdd(x.odd, right[v].odd, odd[at]);
      }
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const VF sum = hn::Add(even[i * kVectors + v], odd[i * kVectors + v]);
      const Index n = column(panel, v);
      const VF before = from == nullptr ? hn::Zero(d) : hn::LoadU(d, from + i * from_row + n);
      hn::StoreU(hn::Add(before, sum), d, b.to + (row + i) * b.to_row + n);
    }
  }
}

void dot_block(const Bf16Block& b) {
  for (Index panel = 0; panel < kBf16Side / kBf16Panel; panel += kPanels) {
    for (Index row = 0; row < kBf16Side; row += kDotRows) dot_rows<kDotRows>(b, row, panel);
  }
}

void tile_block(const Bf16Block& b) {
  for (Index panel = 0; panel < kBf16Side / kBf16Panel; panel += kPanels) {
    for (Index row = 0; row < kBf16Side; row += kTileRows) {
      const float* from = b.from == nullptr ? nullptr : b.from + row * b.from_row;
      Index from_row = b.from_row;
      for (Index k = 0; k < b.depth; k += kBf16Depth) {
        Bf16Block step = b;
        step.right += k * kBf16Panel;
        step.left += k;
        tile_step<kTileRows>(step, row, panel, 0, from, from_row);
        from = b.to + row * b.to_row;
        from_row = b.to_row;
      }
    }
  }
}

void nothing() {}

void finish(const Epilogue& e, Index m, Index n, Index rows, Index columns, const float* sums,
            float* c, Index c_row) {
  const DF d;
  for (Index i = 0; i < rows; ++i, sums += kBf16Side, c += c_row) {
    Index j = 0;
    for (; j + kFloatLanes <= columns; j += kFloatLanes) {
      VF sum = hn::LoadU(d, sums + j);
      if (e.bias) sum = hn::Add(hn::LoadU(d, e.bias.data() + n + j), sum);
      hn::StoreU(sum, d, c + j);
      finish_vector(e, m + i, n + j, sum, c + j);
    }
    if (j == columns) continue;
    for (Index r = j; r < columns; ++r) c[r] = e.bias ? e.bias[n + r] + sums[r] : sums[r];
    finish_part(e, m + i, n + j, columns - j, c + j);
  }
}

}  // namespace

const Bf16Target kBf16Target = {pack_row,
                                pack_left_transposed,
                                pack_right,
                                pack_right_transposed,
                                finish,
                                {nothing, dot_block, nothing},
                                {nothing, tile_block, nothing}};

#endif  // PRENORM_FMA_TARGET
}  // namespace prenorm::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace prenorm::kernels {
PRENORM_TARGET_TABLE(Bf16Target, bf16_target, kBf16Target)

const Bf16Kernel& bf16_kernel(Isa isa, Products products, [[maybe_unused]] Bf16Unit unit) {
#if defined(__x86_64__)
  if (unit == Bf16Unit::kMatrix) return kBf16TileKernel;
  if (unit == Bf16Unit::kDotProduct) return kBf16DotKernel;
#endif
  const Bf16Target& target = bf16_target(isa);
  return products == Products::kBfloat16Dot ? target.dot : target.tile;
}

}  // namespace prenorm::kernels
#endif
