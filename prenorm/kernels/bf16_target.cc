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
  // Written out, because GCC compiles implicit ones without the target's options.
  HWY_INLINE Pair() {}
  HWY_INLINE Pair(VF e, VF o) : even(e), odd(o) {}
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
        tile_step<kTileRows>(b, row, panel, k, from, from_row);
        from = b.to + row * b.to_row;
        from_row = b.to_row;
      }
    }
  }
}

void nothing() {}

template <typename Then>
HWY_INLINE void finish_with(const Then& then, const Epilogue& e, Index m, Index n, Index rows,
                            Index columns, const float* sums, float* c, Index c_row) {
  const DF d;
  const Index whole = columns / kFloatLanes * kFloatLanes;
  for (Index i = 0; i < rows; ++i, sums += kBf16Side, c += c_row) {
    for (Index j = 0; j < whole; j += kFloatLanes) {
      VF sum = hn::LoadU(d, sums + j);
      if (e.bias) sum = hn::Add(hn::LoadU(d, e.bias.data() + n + j), sum);
      hn::StoreU(then(sum, m + i, n + j), d, c + j);
    }
    if (whole == columns) continue;
    for (Index j = whole; j < columns; ++j) c[j] = e.bias ? e.bias[n + j] + sums[j] : sums[j];
    finish_part(e, m + i, n + whole, columns - whole, c + whole);
  }
}

// c = sums with the bias, and act(c) rounded to the left operand of another product, with zeros
// past the last row and column.
template <Activation kAct>
void finish_rounded(const Bf16Epilogue& e, Index m, Index n, Index rows, Index columns,
                    const float* sums, float* c, Index c_row) {
  const DF d;
  const VF floor = hn::Set(d, kBf16ValueFloor);
  alignas(64) float bias[kBf16Side] = {}, part[kFloatLanes];
  if (e.bias) std::copy_n(e.bias.data() + n, columns, bias);
  const Index to_row = bf16_left_row(e.rounded.k);
  std::uint16_t* to = e.rounded.data + m * to_row + n;
  for (Index i = 0; i < rows; ++i, sums += kBf16Side, c += c_row, to += to_row) {
    for (Index j = 0; j < kBf16Side; j += kFloatLanes) {
      const VF sum = hn::Add(hn::Load(d, bias + j), hn::LoadU(d, sums + j));
      const Index here = std::clamp<Index>(columns - j, 0, kFloatLanes);
      if (here == kFloatLanes) {
        hn::StoreU(sum, d, c + j);
      } else {
        hn::Store(sum, d, part);
        std::copy_n(part, here, c + j);
      }
      const auto seen = hn::FirstN(d, static_cast<std::size_t>(here));
      store_rounded(hn::IfThenElseZero(seen, activate<kAct>(sum)), floor, to + j);
    }
  }
  for (Index i = rows; i < kBf16Side; ++i, to += to_row) {
    std::fill_n(to, kBf16Side, std::uint16_t{0});
  }
}

void finish(const Bf16Epilogue& e, Index m, Index n, Index rows, Index columns, const float* sums,
            float* c, Index c_row) {
  if (e.rounded.data != nullptr) {
    const auto rounded = e.activation == Activation::kRelu ? finish_rounded<Activation::kRelu>
                         : e.activation == Activation::kGelu
                             ? finish_rounded<Activation::kGelu>
                             : finish_rounded<Activation::kGeluTanh>;
    return rounded(e, m, n, rows, columns, sums, c, c_row);
  }
  with_epilogue(e, [&](const auto& then) PRENORM_INLINED {
    finish_with(then, e, m, n, rows, columns, sums, c, c_row);
  });
}

}  // namespace

const Bf16Target kBf16Target = {pack_row,
                                pack_left_transposed,
                                transpose_left,
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
