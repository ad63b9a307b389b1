#include "prenorm/kernels/matmul_bf16.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <vector>

#include "prenorm/base/stopwatch.h"
#include "prenorm/kernels/bf16_target.h"
#include "prenorm/kernels/profile.h"

namespace prenorm::kernels {
namespace {

// Tuning, not arithmetic. A stretch of two panels stays in the nearest cache while the rows of a
// piece go by; the sums so far are kept in c between stretches.
constexpr Index kStretch = 512;
constexpr Index kRowGroup = 256, kColumnGroup = 512;
constexpr Index kPackRows = 32, kPackPanels = 8;
// A line more than the rows of the left operand, which a power of two apart would share the cache's
// sets.
constexpr Index kLineBfloats = 32;

float floor_of(Bf16Role role) {
  return role == Bf16Role::kValue ? kBf16ValueFloor : kBf16GradientFloor;
}

Index padded(Index k) { return round_up(k, kBf16Depth); }
Index left_row(Index k) { return padded(k) + kLineBfloats; }
Index left_elements(Index m, Index k) { return round_up(m, kBf16Side) * left_row(k); }

// The left operand as bf16_target.h describes it.
struct Left {
  const std::uint16_t* data;
  Index row;
};

void pack_left(const Runtime& run, const Bf16Operand& a, std::uint16_t* to) {
  const Index rows = a.matrix.dim(0), k = a.matrix.dim(1), row = left_row(k);
  const Bf16Target& target = bf16_target(run.isa());
  const float floor = floor_of(a.role);
  run.pool().run(ceil_div(rows, kPackRows), [&](Index piece, int) {
    const Index begin = piece * kPackRows;
    for (Index m = begin; m < begin + kPackRows; ++m) {
      const Index count = m < rows ? k : 0;
      if (count > 0) target.pack_row(a.matrix[m].data(), k, floor, to + m * row);
      std::fill(to + m * row + count, to + m * row + padded(k), std::uint16_t{0});
    }
  });
}

void pack_left_transposed(const Runtime& run, const Bf16Operand& a, std::uint16_t* to) {
  const Index k = a.matrix.dim(0), rows = a.matrix.dim(1), row = left_row(k);
  const Bf16Target& target = bf16_target(run.isa());
  run.pool().run(padded(k) / kBf16Depth, [&](Index piece, int) {
    const Index k0 = piece * kBf16Depth;
    target.pack_left_transposed(a.matrix[k0].data(), a.matrix.stride(0),
                                std::min(kBf16Depth, k - k0), rows, floor_of(a.role), to + k0, row);
  });
}

// How c is cut into pieces: halved until every thread has several.
struct Grid {
  Index row_group, column_group, rows, columns;

  Grid(Index m, Index n, int threads) {
    row_group = std::min(round_up(m, kBf16Side), kRowGroup);
    column_group = std::min(round_up(n, kBf16Side), kColumnGroup);
    const Index wanted = threads == 1 ? 1 : Index{threads} * 6;
    while (ceil_div(m, row_group) * ceil_div(n, column_group) < wanted) {
      Index& longer = column_group >= row_group ? column_group : row_group;
      if (longer == kBf16Side) break;
      longer = round_up(longer / 2, kBf16Side);
    }
    rows = ceil_div(m, row_group);
    columns = ceil_div(n, column_group);
  }
};

struct Product {
  Left left;
  Bf16Panels right;
  Matrix c;
  const Epilogue& epilogue;
  Index m;
};

// Some rows and columns of a product, on one thread.
class Piece {
 public:
  Piece(const Bf16Target& target, const Bf16Kernel& kernel, const Product& p)
      : target_(target), kernel_(kernel), p_(p) {}

  void run(Index m0, Index m1, Index n0, Index n1) const {
    kernel_.begin();
    for (Index k = 0; k < depth() || k == 0; k += kStretch) {
      for (Index n = n0; n < n1; n += kBf16Side) {
        for (Index m = m0; m < m1; m += kBf16Side) block(m, n, k);
      }
    }
    kernel_.end();
  }

 private:
  Index depth() const { return padded(p_.right.k); }

  void block(Index m, Index n, Index k) const {
    const Index rows = std::min(kBf16Side, p_.m - m), columns = std::min(kBf16Side, p_.right.n - n);
    const Index stride = p_.c.stride(0);
    float* c = p_.c.data() + m * stride + n;
    const bool whole = rows == kBf16Side && columns == kBf16Side;
    const bool finishes = k + kStretch >= depth() && !p_.epilogue.accumulate;
    alignas(64) float sums[kBf16Side * kBf16Side];
    Bf16Block b;
    b.left = p_.left.data + m * p_.left.row + k;
    b.left_row = p_.left.row;
    b.right = p_.right.data + n * depth() + k * kBf16Panel;
    b.right_panel = depth() * kBf16Panel;
    b.depth = std::min(kStretch, depth() - k);
    b.from = k == 0 && !p_.epilogue.accumulate ? nullptr : whole ? c : sums;
    b.from_row = whole ? stride : kBf16Side;
    b.to = whole && !finishes ? c : sums;
    b.to_row = whole && !finishes ? stride : kBf16Side;
    if (b.from == sums) copy(c, stride, rows, columns, sums, kBf16Side);
    kernel_.block(b);
    if (finishes) {
      target_.finish(p_.epilogue, m, n, rows, columns, sums, c, stride);
    } else if (!whole) {
      copy(sums, kBf16Side, rows, columns, c, stride);
    }
  }

  static void copy(const float* from, Index from_row, Index rows, Index columns, float* to,
                   Index to_row) {
    for (Index i = 0; i < rows; ++i) std::copy_n(from + i * from_row, columns, to + i * to_row);
  }

  const Bf16Target& target_;
  const Bf16Kernel& kernel_;
  const Product& p_;
};

void compute(const Runtime& run, Products products, const Product& p) {
  const Bf16Kernel& kernel = bf16_kernel(run.isa(), products, bf16_unit(run.isa(), products));
  const Piece piece(bf16_target(run.isa()), kernel, p);
  const Index n = p.right.n;
  const Grid grid(p.m, n, run.threads());
  run.pool().run(grid.rows * grid.columns, [&](Index item, int) {
    const Index m0 = item % grid.rows * grid.row_group, n0 = item / grid.rows * grid.column_group;
    piece.run(m0, std::min(p.m, m0 + grid.row_group), n0, std::min(n, n0 + grid.column_group));
  });
}

double flops(Index m, Index n, Index k) {
  return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
}

// Scratch for both operands: the left one first.
struct Scratch {
  std::uint16_t *left, *right;

  Scratch(const Runtime& run, Index left_size, Index right_size) {
    const auto elements = static_cast<std::size_t>(round_up(left_size, kLineBfloats) + right_size);
    left = reinterpret_cast<std::uint16_t*>(run.shared_scratch((elements + 1) / 2));
    right = left + round_up(left_size, kLineBfloats);
  }
};

}  // namespace

Index Bf16Panels::elements(Index k, Index n) { return padded(k) * round_up(n, kBf16Side); }

void pack_panels(const Runtime& run, const Right& source, Bf16Role role, const Bf16Panels& to) {
  assert(source.form != Right::Form::kPacked && source.k() == to.k && source.n() == to.n);
  const Bf16Target& target = bf16_target(run.isa());
  const bool plain = source.form == Right::Form::kPlain;
  const Index across = kPackPanels * kBf16Panel, stride = padded(to.k) * kBf16Panel;
  const Index groups = ceil_div(to.n, across), row = source.matrix.stride(0);
  run.pool().run(groups * (padded(to.k) / kBf16Depth), [&](Index item, int) {
    const Index n = item % groups * across, k = item / groups * kBf16Depth;
    const float* from = source.matrix.data() + (plain ? k * row + n : n * row + k);
    (plain ? target.pack_right : target.pack_right_transposed)(
        from, row, std::min(kBf16Depth, to.k - k), std::min(across, to.n - n), floor_of(role),
        to.data + n / kBf16Panel * stride + k * kBf16Panel, stride);
  });
}

void matmul_bf16(const Runtime& run, Products products, const Bf16Operand& a, const Bf16Panels& b,
                 Matrix c, const Epilogue& epilogue) {
  const Index m = a.matrix.dim(0);
  assert(a.matrix.dim(1) == b.k && c.dim(0) == m && c.dim(1) == b.n && !epilogue.accumulate);
  if (m == 0 || b.n == 0) return;
  const ProfileScope scope(run, Part::kMatmul, flops(m, b.n, b.k), 0.0);
  const Scratch scratch(run, left_elements(m, b.k), 0);
  pack_left(run, a, scratch.left);
  compute(run, products, {{scratch.left, left_row(b.k)}, b, c, epilogue, m});
}

void matmul_bf16(const Runtime& run, Products products, const Bf16Operand& a, const Right& b,
                 Bf16Role b_role, Matrix c, const Epilogue& epilogue) {
  const Index m = a.matrix.dim(0), k = b.k(), n = b.n();
  assert(a.matrix.dim(1) == k && c.dim(0) == m && c.dim(1) == n && !epilogue.accumulate);
  if (m == 0 || n == 0) return;
  const ProfileScope scope(run, Part::kMatmul, flops(m, n, k), 0.0);
  const Scratch scratch(run, left_elements(m, k), Bf16Panels::elements(k, n));
  const Bf16Panels panels{scratch.right, k, n};
  pack_panels(run, b, b_role, panels);
  pack_left(run, a, scratch.left);
  compute(run, products, {{scratch.left, left_row(k)}, panels, c, epilogue, m});
}

void matmul_transposed_accumulate_bf16(const Runtime& run, Products products, const Bf16Operand& a,
                                       const Bf16Operand& b, Matrix c) {
  const Index k = a.matrix.dim(0), m = a.matrix.dim(1), n = b.matrix.dim(1);
  assert(b.matrix.dim(0) == k && c.dim(0) == m && c.dim(1) == n);
  if (m == 0 || n == 0 || k == 0) return;
  const ProfileScope scope(run, Part::kMatmul, flops(m, n, k), 0.0);
  const Scratch scratch(run, left_elements(m, k), Bf16Panels::elements(k, n));
  const Bf16Panels panels{scratch.right, k, n};
  pack_panels(run, Right::plain(b.matrix), b.role, panels);
  pack_left_transposed(run, a, scratch.left);
  Epilogue epilogue;
  epilogue.accumulate = true;
  compute(run, products, {{scratch.left, left_row(k)}, panels, c, epilogue, m});
}

double measure_bf16_peak(const Runtime& run, Products products, double seconds) {
  const Bf16Kernel& kernel = bf16_kernel(run.isa(), products, bf16_unit(run.isa(), products));
  constexpr Index kDepth = 256, kRounds = 200;
  std::vector<std::uint16_t> operands(static_cast<std::size_t>(2 * kBf16Side * kDepth + 64));
  auto* data = operands.data() + 32 - reinterpret_cast<std::uintptr_t>(operands.data()) / 2 % 32;
  const Index pieces = Index{run.threads()} * 8;
  double best = 0.0;
  for (const auto begin = Clock::now(); seconds_since(begin) < seconds;) {
    const auto start = Clock::now();
    run.pool().run(pieces, [&](Index, int) {
      alignas(64) float sums[kBf16Side * kBf16Side];
      const Bf16Block block{
          data, kDepth,   data + kBf16Side * kDepth, kDepth * kBf16Panel, kDepth, nullptr, 0,
          sums, kBf16Side};
      kernel.begin();
      for (Index i = 0; i < kRounds; ++i) kernel.block(block);
      kernel.end();
    });
    const double work = static_cast<double>(pieces * kRounds) * flops(kBf16Side, kBf16Side, kDepth);
    best = std::max(best, work / seconds_since(start) / 1e9);
  }
  return best;
}

}  // namespace prenorm::kernels
