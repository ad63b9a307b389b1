// One piece of a matrix product: strips of rows, blocks of k, tiles; and what is fetched meanwhile.
// Per-target include.
#if defined(PRENORM_KERNELS_MATMUL_PIECE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PRENORM_KERNELS_MATMUL_PIECE_INL_H
#undef PRENORM_KERNELS_MATMUL_PIECE_INL_H
#else
#define PRENORM_KERNELS_MATMUL_PIECE_INL_H
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "prenorm/kernels/column_sums-inl.h"
#include "prenorm/kernels/fetch_ahead.h"
#include "prenorm/kernels/matmul_few_rows-inl.h"
#include "prenorm/kernels/matmul_finish-inl.h"
#include "prenorm/kernels/matmul_sums-inl.h"
#include "prenorm/kernels/matmul_target.h"
#include "prenorm/kernels/pack-inl.h"

HWY_BEFORE_NAMESPACE();
namespace prenorm::kernels::HWY_NAMESPACE {
#if PRENORM_FMA_TARGET
namespace {

void pack_plain_panel(const float* b, Index b_row, Index k, Index columns, float* panel) {
  pack_rows(b, b_row, k, columns, kTileWidth, panel, kTileWidth);
}
void pack_transposed_panel(const float* b, Index b_row, Index k, Index columns, float* panel) {
  pack_transposed(b, b_row, k, columns, kTileWidth, panel, kTileWidth);
}

// bfloat16 is the upper half of a float.
using DU16 = hn::Rebind<std::uint16_t, DF>;
using DU = hn::RebindToUnsigned<DF>;

// count is a multiple of a vector's lanes.
HWY_INLINE void widen(const std::uint16_t* HWY_RESTRICT from, Index count, float* HWY_RESTRICT to) {
  for (Index i = 0; i < count; i += kFloatLanes) {
    const auto bits = hn::PromoteTo(DU(), hn::LoadU(DU16(), from + i));
    hn::Store(hn::BitCast(DF(), hn::ShiftLeft<16>(bits)), DF(), to + i);
  }
}

// From one packed tile of aᵀ to the next: a line more, so that they do not share the cache's sets.
constexpr Index kLeftStride = kSumBlock * kTileRows + 16;

// Tiles [k][kTileRows] of aᵀ [k, rows], the last one zero-padded.
void pack_left(const float* a, Index a_row, Index k, Index rows, float* tiles) {
  const Index whole = rows / kTileRows, rest = rows % kTileRows;
  for (Index i = 0; i < k; ++i) {
    const float* from = a + i * a_row;
    float* to = tiles + i * kTileRows;
    for (Index t = 0; t < whole; ++t) {
      std::memcpy(to + t * kLeftStride, from + t * kTileRows, kTileRows * sizeof(float));
    }
    if (rest == 0) continue;
    to += whole * kLeftStride;
    for (Index m = 0; m < kTileRows; ++m) to[m] = m < rest ? from[whole * kTileRows + m] : 0.0f;
  }
}

Index tiles_of(Index rows) { return ceil_div(rows, kTileRows); }

// The piece's rows from m and columns from n of what its epilogue reads or writes besides c.
void add_operand(const MatmulPiece& p, ConstMatrix x, Index m, Index n, Index rows, Index columns,
                 FetchAhead& ahead) {
  if (x) ahead.add(x[p.m + m].data() + p.n + n, x.stride(0), rows, columns);
}

// The same of c and of all of these.
void add_results(const MatmulPiece& p, Index m, Index n, Index rows, Index columns,
                 FetchAhead& ahead) {
  const Epilogue& e = *p.epilogue;
  ahead.add(p.c + m * p.c_row + n, p.c_row, rows, columns);
  for (const ConstMatrix& x : {e.residual, e.activation_input, ConstMatrix(e.activated)}) {
    add_operand(p, x, m, n, rows, columns, ahead);
  }
}

// One piece: block after block of k, in each panel after panel, in each tile after tile. So a block
// of a panel is read from the nearest cache by all tiles but the first, the rows' block of a from
// the next one by all panels but the first, and c is touched once.
class Piece {
 public:
  explicit Piece(const MatmulPiece& piece)
      : p_(piece),
        group_(p_.weight_gradient ? p_.k : kSumGroup),
        block_(p_.scratch),
        start_(block_ + kSumBlock * kTileWidth),
        sums_(start_ + round_up(p_.columns, kTileWidth)),
        left_(sums_ + p_.rows * round_up(p_.columns, kTileWidth)),
        totals_(reinterpret_cast<double*>(left_ + tiles_of(p_.rows) * kLeftStride)) {}

  // `near` and `far` are fetched meanwhile, some lines for each tile.
  void run(FetchAhead& near, FetchAhead& far) {
    const Epilogue& e = *p_.epilogue;
    const bool finish = does_more_than_store(e);
    const bool local = p_.panels.floats == nullptr, local_ahead = p_.fetch_ahead && local;
    load_start();
    for (Index k = 0; k < p_.k || k == 0; k += kSumBlock) {
      const Index end = std::min(p_.k, k + kSumBlock);
      const Close close = how_to_close(k, end);
      if (p_.weight_gradient) pack_left(p_.a + k * p_.a_row, p_.a_row, end - k, p_.rows, left_);
      if (local_ahead) far = next_rows(end);
      for (Index n = 0; n < p_.columns; n += kTileWidth) {
        if (local_ahead) {
          near = next_panel(n, k, close);
        } else if (local && e.activation_input && end == p_.k) {
          near = next_inputs(n);
        }
        const float* block = panel_block(n, k, end);
        if (p_.column_sums != nullptr) take_columns(n, k, end);
        for (Index m = 0; m < p_.rows; m += kTileRows) {
          near.fetch();
          far.fetch();
          one_tile(m, n, k, end, block, close);
          if (finish && end == p_.k) {
            finish_rows(e, p_.m + m, p_.n + n, tile_rows(m), panel_columns(n), c(m, n), p_.c_row);
          }
        }
      }
    }
  }

 private:
  Index tile_rows(Index m) const { return std::min<Index>(kTileRows, p_.rows - m); }
  Index panel_columns(Index n) const { return std::min(kTileWidth, p_.columns - n); }
  float* c(Index m, Index n) const { return p_.c + m * p_.c_row + n; }
  float* sums(Index m, Index n) const { return sums_ + n * p_.rows + m * kTileWidth; }

  // What a row of c starts from.
  void load_start() {
    const ConstVector& bias = p_.epilogue->bias;
    const Index count = bias ? p_.columns : 0;
    if (count > 0) std::copy_n(bias.data() + p_.n, count, start_);
    std::fill(start_ + count, start_ + round_up(p_.columns, kTileWidth), 0.0f);
  }

  const float* panel_block(Index n, Index k, Index end) const {
    const Panels panel = p_.panels.from(n / kTileWidth);
    if (panel.floats != nullptr) return panel.floats + k * kTileWidth;
    if (panel.bfloats != nullptr) {
      widen(panel.bfloats + k * kTileWidth, (end - k) * kTileWidth, block_);
    } else if (p_.b_transposed) {
      pack_transposed_panel(p_.b + n * p_.b_row + k, p_.b_row, end - k, panel_columns(n), block_);
    } else {
      pack_plain_panel(p_.b + k * p_.b_row + n, p_.b_row, end - k, panel_columns(n), block_);
    }
    return block_;
  }

  // The rows of a from k on, while the block before it is computed.
  FetchAhead next_rows(Index k) const {
    FetchAhead ahead;
    const Index depth = std::min(kSumBlock, p_.k - k);
    if (p_.weight_gradient) {
      ahead.add(p_.a + k * p_.a_row, p_.a_row, depth, p_.rows);
    } else {
      ahead.add(p_.a + k, p_.a_row, p_.rows, depth);
    }
    ahead.spread_over(tiles_of(p_.rows) * ceil_div(p_.columns, kTileWidth));
    return ahead;
  }

  // What the panel after that of column n and row k is packed from, and its part of c.
  FetchAhead next_panel(Index n, Index k, Close close) const {
    n += kTileWidth;
    const bool across = n < p_.columns;
    if (!across) {
      n = 0;
      k += kSumBlock;
    }
    FetchAhead ahead;
    const Index depth = std::min(kSumBlock, p_.k - k);
    if (p_.panels) {
      // they stand one after another
    } else if (p_.b_transposed) {
      ahead.add(p_.b + n * p_.b_row + k, p_.b_row, panel_columns(n), depth);
    } else {
      ahead.add(p_.b + k * p_.b_row + n, p_.b_row, depth, panel_columns(n));
    }
    const bool touches_c = close != Close::kNot || (p_.weight_gradient && k == 0);
    if (across && touches_c) add_results(p_, 0, n, p_.rows, panel_columns(n), ahead);
    ahead.spread_over(tiles_of(p_.rows));
    return ahead;
  }

  // What only the forward pass has touched, or nothing yet, is far even where the rest is near.
  FetchAhead next_inputs(Index n) const {
    FetchAhead ahead;
    n += kTileWidth;
    if (n < p_.columns) {
      for (const ConstMatrix& x :
           {p_.epilogue->activation_input, ConstMatrix(p_.epilogue->activated)}) {
        add_operand(p_, x, 0, n, p_.rows, panel_columns(n), ahead);
      }
      ahead.spread_over(tiles_of(p_.rows));
    }
    return ahead;
  }

  // The columns' sums over the tokens, while their block is near.
  void take_columns(Index n, Index k, Index end) const {
    double* totals = totals_ + n;
    const Index columns = panel_columns(n);
    if (k % kTokenBlock == 0) std::fill_n(totals, columns, 0.0);
    add_to_totals(p_.b + k * p_.b_row + n, p_.b_row, end - k, columns, totals);
    if (end == p_.k || end % kTokenBlock == 0) close_totals(totals, columns, p_.column_sums + n);
  }

  Close how_to_close(Index k, Index end) const {
    if (end != p_.k && end % group_ != 0) return Close::kNot;
    if (p_.weight_gradient) return Close::kStore;
    const bool from_start = k < group_ && !p_.epilogue->accumulate;
    return from_start ? Close::kAddToRow : Close::kAddToC;
  }

  void one_tile(Index m, Index n, Index k, Index end, const float* block, Close close) {
    const Index rows = tile_rows(m), columns = panel_columns(n);
    const bool whole = columns == kTileWidth || (rows == kTileRows && columns % kFloatLanes == 0);
    alignas(64) float edge[kTileRows * kTileWidth];
    // A weight gradient's blocks are added to what c holds one after another.
    const bool opens = k % group_ == 0, from_c = opens && p_.weight_gradient;
    Destination to{sums(m, n), opens ? nullptr : sums(m, n),
                   kTileWidth, p_.rows <= kTileRows && p_.panels.floats != nullptr,
                   close,      start_ + n,
                   c(m, n),    p_.c_row};
    if (!whole) {
      to.c = edge;
      to.c_row = kTileWidth;
      if (close == Close::kAddToC || from_c) {
        copy_rows(c(m, n), p_.c_row, rows, columns, edge, kTileWidth);
      }
    }
    if (from_c) {
      to.before = to.c;
      to.before_row = to.c_row;
    }
    if (p_.weight_gradient) {
      const float* a = left_ + m / kTileRows * kLeftStride;
      add_block_of(rows, columns, a, 1, kTileRows, block, end - k, to);
    } else {
      add_block_of(rows, columns, p_.a + m * p_.a_row + k, p_.a_row, 1, block, end - k, to);
    }
    if (!whole && close != Close::kNot) {
      copy_rows(edge, kTileWidth, rows, columns, c(m, n), p_.c_row);
    }
  }

  static void copy_rows(const float* from, Index from_row, Index rows, Index columns, float* to,
                        Index to_row) {
    for (Index i = 0; i < rows; ++i) std::copy_n(from + i * from_row, columns, to + i * to_row);
  }

  const MatmulPiece& p_;
  Index group_;
  float* block_;    // [kSumBlock][kTileWidth]
  float* start_;    // [columns], padded
  float* sums_;     // [panels][rows][kTileWidth]
  float* left_;     // of a weight gradient: a block of its packed tiles
  double* totals_;  // of a weight gradient: its columns' sums of up to kTokenBlock tokens
};

// Rows that are taken together where the panels are ready: their sums and a block of the panel fit
// the nearest cache.
constexpr Index kStripRows = 48;
static_assert(kStripRows % kTileRows == 0);

Index tile_products(Index rows, Index columns, Index k) {
  return tiles_of(rows) * ceil_div(columns, kTileWidth) * ceil_div(k, kSumBlock);
}

// What the strip after that of row m and column n reads and writes besides its operands.
FetchAhead next_strip(const MatmulPiece& p, Index m, Index n) {
  FetchAhead ahead;
  const Index tiles = tile_products(std::min(kStripRows, p.rows - m), kTileWidth, p.k);
  m += kStripRows;
  if (m >= p.rows) {
    m = 0;
    n += kTileWidth;
  }
  if (n >= p.columns || !p.fetch_ahead) return ahead;
  add_results(p, m, n, std::min(kStripRows, p.rows - m), std::min(kTileWidth, p.columns - n),
              ahead);
  ahead.spread_over(tiles);
  return ahead;
}

// The rows of a that this thread will probably take next.
FetchAhead next_piece(const MatmulPiece& p) {
  FetchAhead ahead;
  ahead.add(p.next_a, p.a_row, p.next_rows, p.k);
  ahead.spread_over(tile_products(p.rows, p.columns, p.k));
  return ahead;
}

Index piece_scratch(Index rows, Index columns, bool weight_gradient) {
  const Index left = weight_gradient ? tiles_of(rows) * kLeftStride + 2 * columns : 0;
  const Index tiles = kSumBlock * kTileWidth + (rows + 1) * round_up(columns, kTileWidth) + left;
  return std::max(tiles, kFewRowsScratch);  // the last piece may be one of few rows
}

void piece(const MatmulPiece& p) {
  if (is_few_rows(p)) return few_rows_piece(p);
  FetchAhead near, far;
  if (!p.panels || (p.panels.bfloats != nullptr && p.rows > kStripRows)) {
    return Piece(p).run(near, far);
  }
  far = next_piece(p);
  for (Index n = 0; n < p.columns; n += kTileWidth) {
    for (Index m = 0; m < p.rows; m += kStripRows) {
      MatmulPiece strip = p;
      strip.rows = std::min(kStripRows, p.rows - m);
      strip.columns = std::min(kTileWidth, p.columns - n);
      strip.a = p.a + m * p.a_row;
      strip.panels = p.panels.from(n / kTileWidth);
      strip.c = p.c + m * p.c_row + n;
      strip.m = p.m + m;
      strip.n = p.n + n;
      near = next_strip(p, m, n);
      Piece(strip).run(near, far);
    }
  }
}

}  // namespace
#endif  // PRENORM_FMA_TARGET
}  // namespace prenorm::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per-target guard
