#include "prenorm/kernels/bf16_units_target.h"

// Each function names its instructions for the compiler, so that the rest of the library stays
// without them. What they compute is in matmul_bf16.h; that the instructions compute just that, bit
// for bit, is what the tests compare with a model in scalars.
#if defined(__x86_64__)
#include <immintrin.h>

namespace prenorm::kernels {
namespace {

#define PRENORM_TILE __attribute__((target("amx-tile,amx-bf16")))
#define PRENORM_DOT __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))

// Eight registers of 16 rows of 64 bytes.
struct alignas(64) TileConfig {
  std::uint8_t palette = 1, start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfig) == 64);

PRENORM_TILE void tile_begin() {
  static constexpr TileConfig kConfig;
  _tile_loadconfig(&kConfig);
}
PRENORM_TILE void tile_end() { _tile_release(); }

// Registers 0 to 3 hold the block's quarters, 4 and 5 rows of the left operand, 6 and 7 panels.
PRENORM_TILE void tile_block(const Bf16Block& b) {
  constexpr Index kHalf = 16;
  if (b.from == nullptr) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  } else {
    const Index stride = b.from_row * Index{sizeof(float)};
    _tile_loadd(0, b.from, stride);
    _tile_loadd(1, b.from + kHalf, stride);
    _tile_loadd(2, b.from + kHalf * b.from_row, stride);
    _tile_loadd(3, b.from + kHalf * b.from_row + kHalf, stride);
  }
  const Index left_stride = b.left_row * Index{sizeof(std::uint16_t)};
  const std::uint16_t *left = b.left, *below = b.left + kHalf * b.left_row;
  const std::uint16_t *right = b.right, *beside = b.right + b.right_panel;
  for (Index k = 0; k < b.depth; k += kBf16Depth) {
    _tile_loadd(6, right, 64);
    _tile_loadd(4, left + k, left_stride);
    _tile_loadd(7, beside, 64);
    _tile_loadd(5, below + k, left_stride);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
    right += kBf16Depth * kBf16Panel;
    beside += kBf16Depth * kBf16Panel;
  }
  const Index stride = b.to_row * Index{sizeof(float)};
  _tile_stored(0, b.to, stride);
  _tile_stored(1, b.to + kHalf, stride);
  _tile_stored(2, b.to + kHalf * b.to_row, stride);
  _tile_stored(3, b.to + kHalf * b.to_row + kHalf, stride);
}

constexpr int kDotRows = 8;

PRENORM_DOT void dot_rows(const Bf16Block& b, Index row) {
  __m512 sum[kDotRows][2];
  for (int i = 0; i < kDotRows; ++i) {
    const float* from = b.from + (row + i) * b.from_row;
    sum[i][0] = b.from == nullptr ? _mm512_setzero_ps() : _mm512_loadu_ps(from);
    sum[i][1] = b.from == nullptr ? _mm512_setzero_ps() : _mm512_loadu_ps(from + kBf16Panel);
  }
  const std::uint16_t* left = b.left + row * b.left_row;
  const std::uint16_t *right = b.right, *beside = b.right + b.right_panel;
  for (Index k = 0; k < b.depth; k += 2) {
    const __m512bh one = (__m512bh)_mm512_loadu_si512(right);
    const __m512bh two = (__m512bh)_mm512_loadu_si512(beside);
#pragma GCC unroll 8
    for (int i = 0; i < kDotRows; ++i) {
      int pair;
      __builtin_memcpy(&pair, left + i * b.left_row + k, sizeof(pair));
      const __m512bh x = (__m512bh)_mm512_set1_epi32(pair);
      sum[i][0] = _mm512_dpbf16_ps(sum[i][0], x, one);
      sum[i][1] = _mm512_dpbf16_ps(sum[i][1], x, two);
    }
    right += 2 * kBf16Panel;
    beside += 2 * kBf16Panel;
  }
  for (int i = 0; i < kDotRows; ++i) {
    float* to = b.to + (row + i) * b.to_row;
    _mm512_storeu_ps(to, sum[i][0]);
    _mm512_storeu_ps(to + kBf16Panel, sum[i][1]);
  }
}

PRENORM_DOT void dot_block(const Bf16Block& b) {
  for (Index row = 0; row < kBf16Side; row += kDotRows) dot_rows(b, row);
}

void nothing() {}

}  // namespace

const Bf16Kernel kBf16DotKernel = {nothing, dot_block, nothing};
const Bf16Kernel kBf16TileKernel = {tile_begin, tile_block, tile_end};

}  // namespace prenorm::kernels
#endif
