#include "prenorm/kernels/matmul.h"

#include <algorithm>
#include <bit>
#include <cassert>

#include "prenorm/base/bfloat16.h"
#include "prenorm/kernels/fetch_ahead.h"
#include "prenorm/kernels/matmul_target.h"
#include "prenorm/kernels/profile.h"

namespace prenorm::kernels {
namespace {

// Tuning, not arithmetic: n is cut into chunks so that a packed one stays in the last-level cache.
constexpr Index kPackRows = 256;
constexpr Index kChunkFloats = Index{1} << 20;
constexpr Index kOneGroup = 16, kRowGroup = 96, kColumnGroup = 384, kPiecesForEach = 6;
// A product of few rows would spend its time on packing, and panels of a deep one do not stay near:
// each piece packs the blocks that it uses, which then do not travel from one core to another.
constexpr Index kFewerRows = 1024, kDeep = 1024, kFewLeftFloats = Index{1} << 17;
constexpr Index kLocalRows = 256, kLargePiecesForEach = 2;

// How a chunk of c is cut into pieces: halved until every thread has several.
struct Grid {
  Index row_group, column_group, rows, columns;

  Grid(const MatmulTarget& target, Index m, Index n, bool local, bool large, int threads) {
    const Index most_rows = local ? kLocalRows : kRowGroup;
    row_group = m <= kOneGroup
                    ? m
                    : std::min(m, round_up(ceil_div(m, ceil_div(m, most_rows)), target.rows));
    column_group = std::max(target.width, kColumnGroup / target.width * target.width);
    const bool long_runs = local && m <= kFewRows;  // of memory are what counts
    const Index each = large || long_runs ? kLargePiecesForEach : kPiecesForEach;
    const Index wanted = threads == 1 ? 1 : Index{threads} * each;
    if (long_runs) column_group = round_up(ceil_div(n, wanted), target.width);
    while (!long_runs && count(m, n) < wanted) {
      if (column_group >= 2 * target.width && column_group > row_group) {
        column_group = round_up(column_group / 2, target.width);
      } else if (row_group >= 48) {
        row_group = round_up(row_group / 2, target.rows);
      } else {
        break;
      }
    }
    rows = ceil_div(m, row_group);
    columns = ceil_div(n, column_group);
  }
  Index count(Index m, Index n) const { return ceil_div(m, row_group) * ceil_div(n, column_group); }

  // Each thread's share of the pieces is a band of rows, as far as there are rows enough: those
  // that it has in its own cache from the operation before. In a band columns are outside, so that
  // one panel serves all of its rows.
  struct Place {
    Index row, column;
    Index rows_left;  // of the band, after this one
  };
  Place place(Index item, int threads) const {
    int band = 0;
    while (item >= band_begin(band + 1, threads) * columns) ++band;
    const Index first = band_begin(band, threads);
    const Index height = band_begin(band + 1, threads) - first;
    item -= first * columns;
    return {first + item % height, item / height, height - 1 - item % height};
  }

 private:
  Index band_begin(int band, int threads) const {
    return ThreadPool::share_begin(rows, band, threads);
  }
};

struct Product {
  ConstMatrix a;
  bool a_transposed;
  Right b;
  Matrix c;
  Epilogue epilogue;
  Index m, n, k;
  Vector column_sums = {};  // of b, if a is transposed

  // What it reads and writes.
  Index floats() const {
    const bool operand = epilogue.residual || epilogue.activated || epilogue.activation_input;
    return m * k + k * n + m * n * (operand ? 2 : 1);
  }
};

// Columns [n0, n1) of a product, and where its part of b is packed.
struct Chunk {
  Index n0, n1;
  Panels panels;
};

// Packs rows [k, k + count) of b in columns [n, n + columns).
void pack_block(const MatmulTarget& target, const Right& b, Index k, Index count, Index n,
                Index columns, float* to) {
  const Index row = b.matrix.stride(0);
  if (b.form == Right::Form::kPlain) {
    target.pack_plain(b.matrix.data() + k * row + n, row, count, columns, to);
  } else {
    target.pack_transposed(b.matrix.data() + n * row + k, row, count, columns, to);
  }
}

// Packs the chunk's part of b into `panels`.
void pack_chunk(const Runtime& run, const MatmulTarget& target, const Product& p,
                const Chunk& chunk, float* panels) {
  const Index across = ceil_div(chunk.n1 - chunk.n0, target.width), down = ceil_div(p.k, kPackRows);
  run.pool().run(across * down, [&](Index item, int) {
    const Index panel = item / down, k = item % down * kPackRows;
    const Index n = chunk.n0 + panel * target.width;
    pack_block(target, p.b, k, std::min(kPackRows, p.k - k), n,
               std::min(target.width, chunk.n1 - n),
               panels + panel * chunk.panels.stride + k * target.width);
  });
}

// The chunk's columns of c.
void compute_chunk(const Runtime& run, const MatmulTarget& target, const Product& p,
                   const Chunk& chunk) {
  const Index width = chunk.n1 - chunk.n0;
  const bool near = p.floats() <= FetchAhead::kNearFloats;
  // Of a weight gradient both operands are packed, and half of them come from other cores.
  const bool local = chunk.panels.floats == nullptr, large = local && (!near || p.a_transposed);
  const Grid grid(target, p.m, width, local, large, run.threads());
  run.reserve_worker_scratch(static_cast<std::size_t>(
      target.piece_scratch(grid.row_group, grid.column_group, p.a_transposed)));
  run.pool().run(grid.rows * grid.columns, [&](Index item, int worker) {
    const Grid::Place at = grid.place(item, run.threads());
    const Index m = at.row * grid.row_group, n = at.column * grid.column_group;
    MatmulPiece piece;
    piece.weight_gradient = p.a_transposed;
    piece.a_row = p.a.stride(0);
    piece.a = p.a.data() + (p.a_transposed ? m : m * piece.a_row);
    piece.fetch_ahead = !near;
    const Index next_m = m + grid.row_group;
    if (piece.fetch_ahead && !p.a_transposed && at.rows_left > 0) {
      piece.next_a = p.a.data() + next_m * piece.a_row;
      piece.next_rows = std::min(grid.row_group, p.m - next_m);
    }
    piece.panels = chunk.panels.from(n / target.width);
    if (!piece.panels) {
      piece.b_row = p.b.matrix.stride(0);
      piece.b_transposed = p.b.form == Right::Form::kTransposed;
      piece.b = p.b.matrix.data() + (chunk.n0 + n) * (piece.b_transposed ? piece.b_row : 1);
    }
    // Each group of columns is summed by one piece, of all rows in turn.
    if (p.column_sums && at.row == at.column % grid.rows) {
      piece.column_sums = p.column_sums.data() + chunk.n0 + n;
    }
    piece.scratch = run.worker_scratch(worker);
    piece.rows = std::min(grid.row_group, p.m - m);
    piece.columns = std::min(grid.column_group, width - n);
    piece.k = p.k;
    piece.c_row = p.c.stride(0);
    piece.c = p.c.data() + m * piece.c_row + chunk.n0 + n;
    piece.epilogue = &p.epilogue;
    piece.m = m;
    piece.n = chunk.n0 + n;
    target.piece(piece);
  });
}

void multiply(const Runtime& run, const Product& p) {
  if (p.m == 0 || p.n == 0) return;
  if (p.k == 0 && p.epilogue.accumulate) return;  // a gradient of no tokens
  const double products = static_cast<double>(p.m) * static_cast<double>(p.n);
  const ProfileScope scope(run, Part::kMatmul, 2.0 * products * static_cast<double>(p.k), 0.0);
  const MatmulTarget& target = matmul_target(run.isa());
  if (p.b.form == Right::Form::kPacked) {
    assert(p.b.packed->serves(run));
    const PackedMatrix& b = *p.b.packed;
    const bool wide = b.format() == WeightFormat::kFloat32;
    compute_chunk(
        run, target, p,
        {0, p.n, {wide ? b.floats() : nullptr, wide ? nullptr : b.bfloats(), p.k * b.width()}});
    return;
  }
  const bool local =
      p.a_transposed || p.m <= kFewerRows || p.k > kDeep || p.m * p.k <= kFewLeftFloats;
  if (local) return compute_chunk(run, target, p, {0, p.n, {}});
  const Index most = std::max(target.width, kChunkFloats / p.k / target.width * target.width);
  const Index columns = std::min(most, round_up(p.n, target.width));
  float* panels = run.shared_scratch(static_cast<std::size_t>(p.k * columns));
  for (Index n = 0; n < p.n; n += most) {
    const Chunk chunk{n, std::min(p.n, n + most), {panels, nullptr, p.k * target.width}};
    pack_chunk(run, target, p, chunk, panels);
    compute_chunk(run, target, p, chunk);
  }
}

bool is_bfloat16(float number) { return (std::bit_cast<std::uint32_t>(number) & 0xffffu) == 0; }

}  // namespace

Index Right::k() const {
  return form == Form::kPacked ? packed->k() : matrix.dim(form == Form::kPlain ? 0 : 1);
}
Index Right::n() const {
  return form == Form::kPacked ? packed->n() : matrix.dim(form == Form::kPlain ? 1 : 0);
}

std::size_t PackedMatrix::bytes(Isa isa, Index k, Index n, WeightFormat format) {
  const Index width = matmul_target(isa).width;
  const std::size_t each = format == WeightFormat::kFloat32 ? sizeof(float) : sizeof(std::uint16_t);
  return static_cast<std::size_t>(round_up(n, width) * k) * each;
}

PackedMatrix::PackedMatrix(const Runtime& run, const Right& source, WeightFormat format)
    : memory_(bytes(run.isa(), source.k(), source.n(), format)),
      k_(source.k()),
      n_(source.n()),
      width_(matmul_target(run.isa()).width),
      isa_(run.isa()),
      format_(format) {
  const MatmulTarget& target = matmul_target(isa_);
  const bool narrow = format == WeightFormat::kBfloat16;
  if (narrow) run.reserve_worker_scratch(static_cast<std::size_t>(kPackRows * width_));
  float* floats = memory_.floats().data();
  auto* bfloats = reinterpret_cast<std::uint16_t*>(memory_.data());
  run.pool().run(ceil_div(n_, width_), [&](Index p, int worker) {
    for (Index k = 0; k < k_; k += kPackRows) {
      const Index count = std::min(kPackRows, k_ - k), at = (p * k_ + k) * width_;
      float* to = narrow ? run.worker_scratch(worker) : floats + at;
      pack_block(target, source, k, count, p * width_, std::min(width_, n_ - p * width_), to);
      if (narrow) target.narrow(to, count * width_, bfloats + at);
    }
  });
}

void round_to_bfloat16(const Runtime& run, std::span<float> numbers) {
  constexpr std::size_t kPiece = 1 << 16;
  const std::size_t pieces = (numbers.size() + kPiece - 1) / kPiece;
  run.pool().run(static_cast<Index>(pieces), [&](Index piece, int) {
    const std::size_t first = static_cast<std::size_t>(piece) * kPiece;
    for (float& number : numbers.subspan(first, std::min(kPiece, numbers.size() - first))) {
      // Written only where that changes it: the rest may be in memory that cannot be written to.
      if (!is_bfloat16(number)) number = float_from_bf16(bf16_from_float(number));
    }
  });
}

bool are_bfloat16(std::span<const float> numbers) {
  return std::ranges::all_of(numbers, is_bfloat16);
}

void matmul(const Runtime& run, ConstMatrix a, const Right& b, Matrix c, const Epilogue& epilogue) {
  assert(a.dim(1) == b.k() && c.dim(0) == a.dim(0) && c.dim(1) == b.n());
  multiply(run, {a, false, b, c, epilogue, a.dim(0), b.n(), a.dim(1)});
}

void matmul_transposed_accumulate(const Runtime& run, ConstMatrix a, ConstMatrix b, Matrix c,
                                  Vector column_sums) {
  assert(a.dim(0) == b.dim(0) && c.dim(0) == a.dim(1) && c.dim(1) == b.dim(1));
  assert(!column_sums || column_sums.dim(0) == b.dim(1));
  Epilogue epilogue;
  epilogue.accumulate = true;
  multiply(run, {a, true, Right::plain(b), c, epilogue, a.dim(1), b.dim(1), a.dim(0), column_sums});
}

void add_column_sums(const Runtime& run, ConstMatrix x, Vector sums) {
  constexpr Index kStrip = 64;
  const Index columns = x.dim(1);
  const ProfileScope scope(run, Part::kMatmul, 0.0, 0.0);
  run.pool().run(ceil_div(columns, kStrip), [&](Index strip, int) {
    const Index n = strip * kStrip;
    matmul_target(run.isa()).column_sums(x.data() + n, x.stride(0), x.dim(0),
                                         std::min(kStrip, columns - n), sums.data() + n);
  });
}

}  // namespace prenorm::kernels
