#include "prenorm/kernels/matmul_target.h"

#include <algorithm>
#include <cstring>

#include "prenorm/base/bfloat16.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "prenorm/kernels/matmul_target.cc"
#include "prenorm/kernels/targets.h"
// The per-target parts come after the target has been chosen.
#include "prenorm/kernels/matmul_finish-inl.h"
#include "prenorm/kernels/pack-inl.h"
#include "prenorm/kernels/tile-inl.h"

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

void narrow(const float* from, Index count, std::uint16_t* to) {
  for (Index i = 0; i < count; ++i) to[i] = bf16_from_float(from[i]);
}

// count is a multiple of a vector's lanes.
HWY_INLINE void widen(const std::uint16_t* HWY_RESTRICT from, Index count, float* HWY_RESTRICT to) {
  for (Index i = 0; i < count; i += kFloatLanes) {
    const auto bits = hn::PromoteTo(DU(), hn::LoadU(DU16(), from + i));
    hn::Store(hn::BitCast(DF(), hn::ShiftLeft<16>(bits)), DF(), to + i);
  }
}

// What becomes of the sums when their last block is there.
enum class Close { kNot, kStore, kAddToRow, kAddToC };

// Where a tile's block of products goes.
struct Destination {
  float* sums;       // [rows][kTileWidth]: the sum so far
  bool opens;        // nothing is in `sums` yet
  bool streams;      // the panel is used by this tile alone
  Close close;       // c = sums, row + sums or c + sums
  const float* row;  // [kTileWidth]
  float* c;
  Index c_row;
};

// Adds the tile to the sums, or with these to c.
template <int Rows>
HWY_INLINE void add_rows(Tile<Rows, kTileVectors>& t, const Destination& to) {
  const DF d;
#pragma GCC unroll 8
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < kTileVectors; ++j) {
      float* sum = to.sums + i * kTileWidth + j * kFloatLanes;
      if (!to.opens) t.sum[i][j] = hn::Add(hn::Load(d, sum), t.sum[i][j]);
      if (to.close == Close::kNot) {
        hn::Store(t.sum[i][j], d, sum);
        continue;
      }
      float* c = to.c + i * to.c_row + j * kFloatLanes;
      if (to.close == Close::kAddToRow) {
        t.sum[i][j] = hn::Add(hn::Load(d, to.row + j * kFloatLanes), t.sum[i][j]);
      } else if (to.close == Close::kAddToC) {
        t.sum[i][j] = hn::Add(hn::LoadU(d, c), t.sum[i][j]);
      }
      hn::StoreU(t.sum[i][j], d, c);
    }
  }
}

// 8 KiB: more than memory gives while a line is on its way, less than the nearest cache holds.
constexpr Index kAhead = 2048;

template <int Rows>
void add_block(const float* a, Index a_row, Index a_step, const float* panel, Index k,
               const Destination& to) {
  if (to.streams) {
    auto t = tile_product<Rows, kTileVectors, kAhead>(a, a_row, a_step, panel, kTileWidth, k);
    return add_rows(t, to);
  }
  auto t = tile_product<Rows, kTileVectors>(a, a_row, a_step, panel, kTileWidth, k);
  add_rows(t, to);
}

template <int Rows>
void add_block_of(Index rows, const float* a, Index a_row, Index a_step, const float* panel,
                  Index k, const Destination& to) {
  if constexpr (Rows > 0) {
    if (rows == Rows) return add_block<Rows>(a, a_row, a_step, panel, k, to);
    add_block_of<Rows - 1>(rows, a, a_row, a_step, panel, k, to);
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
        sums_(start_ + round_up(p_.columns, kTileWidth)) {}

  void run() {
    const Epilogue& e = *p_.epilogue;
    const bool finish = p_.last && (e.residual || e.activated || e.activation_input);
    load_start();
    if (p_.weight_gradient) load_sums();
    for (Index k = 0; k < p_.k || k == 0; k += kSumBlock) {
      const Index end = std::min(p_.k, k + kSumBlock);
      const Close close = how_to_close(k, end);
      for (Index n = 0; n < p_.columns; n += kTileWidth) {
        const float* block = panel_block(n, k, end);
        for (Index m = 0; m < p_.rows; m += kTileRows) {
          one_tile(m, n, k, end, block, close);
          if (finish && end == p_.k) finish_rows(m, n);
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

  // A weight gradient's blocks are added to what c holds one after another.
  void load_sums() {
    for (Index n = 0; n < p_.columns; n += kTileWidth) {
      const Index count = panel_columns(n);
      for (Index m = 0; m < p_.rows; ++m) {
        std::copy_n(c(m, n), count, sums(m, n));
        std::fill(sums(m, n) + count, sums(m, n) + kTileWidth, 0.0f);
      }
    }
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

  Close how_to_close(Index k, Index end) const {
    if (end != p_.k && end % group_ != 0) return Close::kNot;
    if (p_.weight_gradient) return Close::kStore;
    const bool from_start = p_.first && k < group_ && !p_.epilogue->accumulate;
    return from_start ? Close::kAddToRow : Close::kAddToC;
  }

  void one_tile(Index m, Index n, Index k, Index end, const float* block, Close close) {
    const Index rows = tile_rows(m), columns = panel_columns(n);
    const bool whole = columns == kTileWidth;
    alignas(64) float edge[kTileRows * kTileWidth];
    Destination to{sums(m, n),
                   k % group_ == 0 && !p_.weight_gradient,
                   p_.rows <= kTileRows && p_.panels.floats != nullptr,
                   close,
                   start_ + n,
                   c(m, n),
                   p_.c_row};
    if (!whole) {
      to.c = edge;
      to.c_row = kTileWidth;
      if (close == Close::kAddToC) copy_rows(c(m, n), p_.c_row, rows, columns, edge, kTileWidth);
    }
    if (p_.weight_gradient) {
      const float* a = p_.a + m / kTileRows * p_.a_row + k * kTileRows;
      add_block_of<kTileRows>(rows, a, 1, kTileRows, block, end - k, to);
    } else {
      add_block_of<kTileRows>(rows, p_.a + m * p_.a_row + k, p_.a_row, 1, block, end - k, to);
    }
    if (!whole && close != Close::kNot) {
      copy_rows(edge, kTileWidth, rows, columns, c(m, n), p_.c_row);
    }
  }

  static void copy_rows(const float* from, Index from_row, Index rows, Index columns, float* to,
                        Index to_row) {
    for (Index i = 0; i < rows; ++i) std::copy_n(from + i * from_row, columns, to + i * to_row);
  }

  void finish_rows(Index m, Index n) const {
    for (Index i = m; i < m + tile_rows(m); ++i) {
      finish_row(*p_.epilogue, p_.m + i, p_.n + n, panel_columns(n), c(i, n));
    }
  }

  const MatmulPiece& p_;
  Index group_;
  float* block_;  // [kSumBlock][kTileWidth]
  float* start_;  // [columns], padded
  float* sums_;   // [panels][rows][kTileWidth]
};

void pack_left(const float* a, Index a_row, Index k, Index rows, float* tiles, Index tile_stride) {
  const Index whole = rows / kTileRows, rest = rows % kTileRows;
  for (Index i = 0; i < k; ++i) {
    const float* from = a + i * a_row;
    float* to = tiles + i * kTileRows;
    for (Index t = 0; t < whole; ++t) {
      std::memcpy(to + t * tile_stride, from + t * kTileRows, kTileRows * sizeof(float));
    }
    if (rest == 0) continue;
    to += whole * tile_stride;
    for (Index m = 0; m < kTileRows; ++m) to[m] = m < rest ? from[whole * kTileRows + m] : 0.0f;
  }
}

// Rows that are taken together where the panels are ready: their sums and a block of the panel fit
// the nearest cache.
constexpr Index kStripRows = 48;
static_assert(kStripRows % kTileRows == 0);

void piece(const MatmulPiece& p) {
  if (!p.panels || (p.panels.bfloats != nullptr && p.rows > kStripRows)) return Piece(p).run();
  for (Index n = 0; n < p.columns; n += kTileWidth) {
    for (Index m = 0; m < p.rows; m += kStripRows) {
      MatmulPiece strip = p;
      strip.rows = std::min(kStripRows, p.rows - m);
      strip.columns = std::min(kTileWidth, p.columns - n);
      strip.a = p.a + (p.weight_gradient ? m / kTileRows : m) * p.a_row;
      strip.panels = p.panels.from(n / kTileWidth);
      strip.c = p.c + m * p.c_row + n;
      strip.m = p.m + m;
      strip.n = p.n + n;
      Piece(strip).run();
    }
  }
}

// Rows [begin, end) of kVectors times sixteen columns, summed in double and added to the sums.
template <int kVectors>
void add_token_block(const float* x, Index x_row, Index begin, Index end, float* sums) {
  D16 sum[kVectors];
  for (D16& s : sum) s = set_d(0.0);
  for (Index m = begin; m < end; ++m) {
    const float* row = x + m * x_row;
    for (int v = 0; v < kVectors; ++v) sum[v] = add(sum[v], load_d(row + v * kLanes));
  }
  for (int v = 0; v < kVectors; ++v) {
    store_d(add(load_d(sums + v * kLanes), sum[v]), sums + v * kLanes);
  }
}

void add_token_block_part(const float* x, Index x_row, Index begin, Index end, Index columns,
                          float* sums) {
  D16 sum = set_d(0.0);
  for (Index m = begin; m < end; ++m) sum = add(sum, load_d_part(x + m * x_row, columns, 0.0f));
  store_d_part(add(load_d_part(sums, columns, 0.0f), sum), sums, columns);
}

// sums[j] += Σ rows, in blocks of 256, each summed in double; some whole lines of a row at a time.
void column_sums(const float* x, Index x_row, Index rows, Index columns, float* sums) {
  constexpr int kTogether = 4;
  for (Index m = 0; m < rows; m += kTokenBlock) {
    const Index end = std::min(rows, m + kTokenBlock);
    Index j = 0;
    for (; j + kTogether * kLanes <= columns; j += kTogether * kLanes) {
      add_token_block<kTogether>(x + j, x_row, m, end, sums + j);
    }
    for (; j + kLanes <= columns; j += kLanes) add_token_block<1>(x + j, x_row, m, end, sums + j);
    if (j < columns) add_token_block_part(x + j, x_row, m, end, columns - j, sums + j);
  }
}

}  // namespace

const MatmulTarget kMatmulTarget = {
    kTileRows, kTileWidth, pack_plain_panel, pack_transposed_panel, pack_left,
    narrow,    piece,      column_sums};

#endif  // PRENORM_FMA_TARGET
}  // namespace prenorm::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace prenorm::kernels {
PRENORM_TARGET_TABLE(MatmulTarget, matmul_target, kMatmulTarget)
}  // namespace prenorm::kernels
#endif
