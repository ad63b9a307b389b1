#include "prenorm/kernels/matmul.h"

#include <algorithm>
#include <cassert>

#include "prenorm/kernels/matmul_target.h"

namespace prenorm::kernels {
namespace {

// Tuning, not arithmetic: k is cut into stretches of whole groups or blocks and n into chunks so
// that a packed chunk stays in the last-level cache; c then holds the sum so far between stretches.
constexpr Index kForwardStretch = kSumGroup, kGradientStretch = 512;
constexpr Index kPackRows = 256;
constexpr Index kChunkFloats = Index{1} << 20;
constexpr Index kRowGroup = 96, kColumnGroup = 384;

// `unit` divides `longest`: what may not be cut.
Index stretch_length(Index k, Index longest, Index unit) {
  const Index stretches = ceil_div(k, longest);
  return std::min(k, round_up(ceil_div(k, stretches), unit));
}

// How a chunk of c is cut into pieces: halved until every thread has several.
struct Grid {
  Index row_group, column_group, rows, columns;

  Grid(const MatmulTarget& target, Index m, Index n, int threads) {
    row_group = m <= 16 ? m : kRowGroup;
    column_group = std::max(target.width, kColumnGroup / target.width * target.width);
    const Index wanted = threads == 1 ? 1 : Index{threads} * 6;
    while (count(m, n) < wanted) {
      if (column_group >= 2 * target.width && column_group > row_group) {
        column_group = round_up(column_group / 2, target.width);
      } else if (row_group >= 48) {
        row_group /= 2;
      } else {
        break;
      }
    }
    rows = ceil_div(m, row_group);
    columns = ceil_div(n, column_group);
  }
  Index count(Index m, Index n) const { return ceil_div(m, row_group) * ceil_div(n, column_group); }
};

struct Product {
  ConstMatrix a;
  bool a_transposed;
  Right b;
  Matrix c;
  Epilogue epilogue;
  Index m, n, k;
};

// Packs [n0, n1) × [k0, k1) of b into `panels`.
void pack_chunk(const Runtime& run, const MatmulTarget& target, const Right& b, Index k0, Index k1,
                Index n0, Index n1, float* panels) {
  const Index width = target.width, stretch = k1 - k0;
  const Index across = ceil_div(n1 - n0, width), down = ceil_div(stretch, kPackRows);
  const Index row = b.matrix.stride(0);
  run.pool().run(across * down, [&](Index item, int) {
    const Index p = item / down, k = item % down * kPackRows;
    const Index n = n0 + p * width, columns = std::min(width, n1 - n);
    const Index count = std::min(kPackRows, stretch - k);
    float* to = panels + (p * stretch + k) * width;
    if (b.form == Right::Form::kPlain) {
      target.pack_plain(b.matrix.data() + (k0 + k) * row + n, row, count, columns, to);
    } else {
      target.pack_transposed(b.matrix.data() + n * row + k0 + k, row, count, columns, to);
    }
  });
}

// The chunk c[:, n0:n1] += a[:, k0:k1] b[k0:k1, n0:n1] from packed panels.
void compute_chunk(const Runtime& run, const MatmulTarget& target, const Product& p, Index k0,
                   Index k1, Index n0, Index n1, const float* panels, Index panel_stride) {
  const Grid grid(target, p.m, n1 - n0, run.threads());
  run.pool().run(grid.rows * grid.columns, [&](Index item, int worker) {
    const Index m = item % grid.rows * grid.row_group;
    const Index n = item / grid.rows * grid.column_group;
    MatmulPiece piece;
    piece.a_row = p.a.stride(0);
    piece.a_transposed = p.a_transposed;
    piece.a =
        p.a_transposed ? p.a.data() + k0 * piece.a_row + m : p.a.data() + m * piece.a_row + k0;
    piece.a_scratch = p.a_transposed ? run.worker_scratch(worker) : nullptr;
    piece.panels = panels + n / target.width * panel_stride;
    piece.panel_stride = panel_stride;
    piece.rows = std::min(grid.row_group, p.m - m);
    piece.columns = std::min(grid.column_group, n1 - n0 - n);
    piece.k = k1 - k0;
    piece.c_row = p.c.stride(0);
    piece.c = p.c.data() + m * piece.c_row + n0 + n;
    piece.first = k0 == 0;
    piece.last = k1 == p.k;
    piece.epilogue = &p.epilogue;
    piece.m = m;
    piece.n = n0 + n;
    target.piece(piece);
  });
}

void multiply(const Runtime& run, const Product& p) {
  if (p.m == 0 || p.n == 0) return;
  if (p.k == 0 && p.epilogue.accumulate) return;  // a gradient of no tokens
  const MatmulTarget& target = matmul_target(run.isa());
  if (p.b.form == Right::Form::kPacked) {
    assert(p.b.packed->serves(run));
    const Index stride = p.k * target.width;
    compute_chunk(run, target, p, 0, p.k, 0, p.n, p.b.packed->panel(0), stride);
    return;
  }
  const Index stretch = p.a_transposed ? stretch_length(p.k, kGradientStretch, kSumBlock)
                                       : stretch_length(p.k, kForwardStretch, kSumGroup);
  const Index chunk = std::max(target.width, kChunkFloats / stretch / target.width * target.width);
  const Index columns = std::min(chunk, round_up(p.n, target.width));
  float* panels = run.shared_scratch(static_cast<std::size_t>(stretch * columns));
  if (p.a_transposed) {
    const Index rows = round_up(std::min(kRowGroup, p.m), target.rows);
    run.reserve_worker_scratch(static_cast<std::size_t>(rows * stretch));
  }
  for (Index n0 = 0; n0 < p.n; n0 += chunk) {
    const Index n1 = std::min(p.n, n0 + chunk);
    for (Index k0 = 0; k0 < p.k; k0 += stretch) {
      const Index k1 = std::min(p.k, k0 + stretch);
      pack_chunk(run, target, p.b, k0, k1, n0, n1, panels);
      compute_chunk(run, target, p, k0, k1, n0, n1, panels, (k1 - k0) * target.width);
    }
  }
}

}  // namespace

Index Right::k() const {
  return form == Form::kPacked ? packed->k() : matrix.dim(form == Form::kPlain ? 0 : 1);
}
Index Right::n() const {
  return form == Form::kPacked ? packed->n() : matrix.dim(form == Form::kPlain ? 1 : 0);
}

std::size_t PackedMatrix::bytes(Isa isa, Index k, Index n) {
  const Index width = matmul_target(isa).width;
  return static_cast<std::size_t>(round_up(n, width) * k) * sizeof(float);
}

PackedMatrix::PackedMatrix(const Runtime& run, const Right& source)
    : memory_(bytes(run.isa(), source.k(), source.n())),
      k_(source.k()),
      n_(source.n()),
      width_(matmul_target(run.isa()).width),
      isa_(run.isa()) {
  pack_chunk(run, matmul_target(run.isa()), source, 0, k_, 0, n_, memory_.floats().data());
}

void matmul(const Runtime& run, ConstMatrix a, const Right& b, Matrix c, const Epilogue& epilogue) {
  assert(a.dim(1) == b.k() && c.dim(0) == a.dim(0) && c.dim(1) == b.n());
  multiply(run, {a, false, b, c, epilogue, a.dim(0), b.n(), a.dim(1)});
}

void matmul_transposed_accumulate(const Runtime& run, ConstMatrix a, ConstMatrix b, Matrix c) {
  assert(a.dim(0) == b.dim(0) && c.dim(0) == a.dim(1) && c.dim(1) == b.dim(1));
  Epilogue epilogue;
  epilogue.accumulate = true;
  multiply(run, {a, true, Right::plain(b), c, epilogue, a.dim(1), b.dim(1), a.dim(0)});
}

void add_column_sums(const Runtime& run, ConstMatrix x, Vector sums) {
  constexpr Index kStrip = 64;
  const Index columns = x.dim(1);
  run.pool().run(ceil_div(columns, kStrip), [&](Index strip, int) {
    const Index n = strip * kStrip;
    matmul_target(run.isa()).column_sums(x.data() + n, x.stride(0), x.dim(0),
                                         std::min(kStrip, columns - n), sums.data() + n);
  });
}

}  // namespace prenorm::kernels
