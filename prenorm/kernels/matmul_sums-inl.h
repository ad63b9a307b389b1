// A tile's block of products and where its sums go: kept for the next block, or to c. Per-target
// include.
#if defined(PRENORM_KERNELS_MATMUL_SUMS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PRENORM_KERNELS_MATMUL_SUMS_INL_H
#undef PRENORM_KERNELS_MATMUL_SUMS_INL_H
#else
#define PRENORM_KERNELS_MATMUL_SUMS_INL_H
#endif

#include "prenorm/kernels/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace prenorm::kernels::HWY_NAMESPACE {
#if PRENORM_FMA_TARGET
namespace {

// What becomes of the sums when their last block is there.
enum class Close { kNot, kStore, kAddToRow, kAddToC };

// Where a tile's block of products goes.
struct Destination {
  float* sums;          // [rows][kTileWidth]: where the sum is kept between blocks
  const float* before;  // the sum so far: null, `sums`, or c
  Index before_row;
  bool streams;      // the panel is used by this tile alone
  Close close;       // c = sums, row + sums or c + sums
  const float* row;  // [kTileWidth]
  float* c;
  Index c_row;
};

// Adds the tile to the sums, or with these to c. Every case is a straight run of its own.
template <int Rows, int Vectors>
HWY_INLINE void add_rows(Tile<Rows, Vectors>& t, const Destination& to) {
  const DF d;
  if (to.before != nullptr) {
    each_sum(t, [&](VF& sum, auto i, auto j) PRENORM_INLINED {
      sum = hn::Add(hn::LoadU(d, to.before + i * to.before_row + j * kFloatLanes), sum);
    });
  }
  switch (to.close) {
    case Close::kNot:
      return each_sum(t, [&](VF& sum, auto i, auto j) PRENORM_INLINED {
        hn::Store(sum, d, to.sums + i * kTileWidth + j * kFloatLanes);
      });
    case Close::kStore:
      return each_sum(t, [&](VF& sum, auto i, auto j) PRENORM_INLINED {
        hn::StoreU(sum, d, to.c + i * to.c_row + j * kFloatLanes);
      });
    case Close::kAddToRow:
      return each_sum(t, [&](VF& sum, auto i, auto j) PRENORM_INLINED {
        const VF start = hn::Load(d, to.row + j * kFloatLanes);
        hn::StoreU(hn::Add(start, sum), d, to.c + i * to.c_row + j * kFloatLanes);
      });
    case Close::kAddToC:
      return each_sum(t, [&](VF& sum, auto i, auto j) PRENORM_INLINED {
        float* c = to.c + i * to.c_row + j * kFloatLanes;
        hn::StoreU(hn::Add(hn::LoadU(d, c), sum), d, c);
      });
  }
}

// 8 KiB: more than memory gives while a line is on its way, less than the nearest cache holds.
constexpr Index kAhead = 2048;

template <int Rows, int Vectors>
void add_block(const float* a, Index a_row, Index a_step, const float* panel, Index k,
               const Destination& to) {
  if (to.streams) {
    auto t = tile_product<Rows, Vectors, kAhead>(a, a_row, a_step, panel, kTileWidth, k);
    return add_rows(t, to);
  }
  auto t = tile_product<Rows, Vectors>(a, a_row, a_step, panel, kTileWidth, k);
  add_rows(t, to);
}

// A tile of so many columns, of all the rows that it can have.
template <int Vectors = kTileVectors>
void add_tall_block(Index columns, const float* a, Index a_row, Index a_step, const float* panel,
                    Index k, const Destination& to) {
  if constexpr (Vectors > 1) {
    if (columns <= (Vectors - 1) * kFloatLanes) {
      return add_tall_block<Vectors - 1>(columns, a, a_row, a_step, panel, k, to);
    }
  }
  add_block<kTileRows, Vectors>(a, a_row, a_step, panel, k, to);
}

// The last rows take a whole panel.
template <int Rows = kTileRows - 1>
void add_low_block(Index rows, const float* a, Index a_row, Index a_step, const float* panel,
                   Index k, const Destination& to) {
  if constexpr (Rows > 0) {
    if (rows == Rows) return add_block<Rows, kTileVectors>(a, a_row, a_step, panel, k, to);
    add_low_block<Rows - 1>(rows, a, a_row, a_step, panel, k, to);
  }
}

void add_block_of(Index rows, Index columns, const float* a, Index a_row, Index a_step,
                  const float* panel, Index k, const Destination& to) {
  if (rows == kTileRows) return add_tall_block(columns, a, a_row, a_step, panel, k, to);
  add_low_block(rows, a, a_row, a_step, panel, k, to);
}

}  // namespace
#endif  // PRENORM_FMA_TARGET
}  // namespace prenorm::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per-target guard
