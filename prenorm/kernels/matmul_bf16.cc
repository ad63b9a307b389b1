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

// Tuning, not arithmetic. Some rows of a stretch stay in the nearest cache while columns go by, so
// that c is written along its rows, and the panels of those columns in the core's next one; the
// sums so far are kept in c between stretches.
constexpr Index kStretch = 256, kColumnsTogether = 512;
constexpr Index kRowGroup = 256, kColumnGroup = 512;
constexpr Index kPackRows = 32, kPackPanels = 8;
// Of an operand that a piece packs for itself: half of a core's own cache.
constexpr Index kOwnElements = Index{1} << 19;
// A right operand that every piece of rows may read as a whole.
constexpr Index kSharedElements = Index{1} << 23;

float floor_of(Bf16Role role) {
  return role == Bf16Role::kValue ? kBf16ValueFloor : kBf16GradientFloor;
}

Index padded(Index k) { return round_up(k, kBf16Depth); }
Index left_elements(Index m, Index k) { return Bf16Rows::elements(m, k); }

// Rows [m0, m1) and k [k0, k1) of the left operand, as bf16_target.h describes it.
void pack_rows(const Bf16Target& target, const Bf16Operand& a, Index m0, Index m1, Index k0,
               Index k1, std::uint16_t* to, Index row) {
  const float floor = floor_of(a.role);
  for (Index m = m0; m < m0 + round_up(m1 - m0, kBf16Side); ++m, to += row) {
    const Index count = m < m1 ? k1 - k0 : 0;
    if (count > 0) target.pack_row(a.matrix[m].data() + k0, count, floor, to);
    std::fill(to + count, to + padded(k1 - k0), std::uint16_t{0});
  }
}

// The same of the transpose, a [K, M].
void pack_columns(const Bf16Target& target, const Bf16Operand& a, Index m0, Index m1, Index k0,
                  Index k1, std::uint16_t* to, Index row) {
  for (Index k = k0; k < k1; k += kBf16Depth) {
    if (a.rounded.data != nullptr) {
      const Index from_row = bf16_left_row(a.rounded.k);
      target.transpose_left(a.rounded.data + k * from_row + m0, from_row, m1 - m0, to + (k - k0),
                            row);
      continue;
    }
    target.pack_left_transposed(a.matrix[k].data() + m0, a.matrix.stride(0),
                                std::min(kBf16Depth, k1 - k), m1 - m0, floor_of(a.role),
                                to + (k - k0), row);
  }
}

// Columns [n0, n1) and k [k0, k1) of the right operand b [K, N]: panels `panel` apart.
void pack_right(const Bf16Target& target, const Bf16Operand& b, Index n0, Index n1, Index k0,
                Index k1, std::uint16_t* to, Index panel) {
  for (Index k = k0; k < k1; k += kBf16Depth) {
    target.pack_right(b.matrix[k].data() + n0, b.matrix.stride(0), std::min(kBf16Depth, k1 - k),
                      n1 - n0, floor_of(b.role), to + (k - k0) * kBf16Panel, panel);
  }
}

// How c is cut into pieces.
struct Grid {
  Index row_group, column_group;
};

// Halved until every thread has several.
Grid square_grid(Index m, Index n, int threads) {
  Grid grid{std::min(round_up(m, kBf16Side), kRowGroup),
            std::min(round_up(n, kBf16Side), kColumnGroup)};
  const Index wanted = threads == 1 ? 1 : Index{threads} * 6;
  while (ceil_div(m, grid.row_group) * ceil_div(n, grid.column_group) < wanted) {
    Index& longer = grid.column_group >= grid.row_group ? grid.column_group : grid.row_group;
    if (longer == kBf16Side) break;
    longer = round_up(longer / 2, kBf16Side);
  }
  return grid;
}

// Of `count` rows or columns, so many that every thread has some groups; 0: there are too few.
Index strip_of(Index count, int threads, Index groups) {
  const Index wanted = threads == 1 ? 1 : groups * threads;
  for (Index group = kRowGroup; group >= 2 * kBf16Side; group /= 2) {
    if (ceil_div(count, group) >= wanted) return group;
  }
  return 0;
}

// c [M, N] and its operands. Packed for all pieces, or, where there is no such data, from the
// source by each piece for itself, which then finds it in its core's own cache.
struct Product {
  Index m, n, k;
  Matrix c;
  const Bf16Epilogue& epilogue;
  Grid grid;
  Bf16Operand left_source = {}, right_source = {};
  bool left_transposed = false;
  const std::uint16_t *left = nullptr, *right = nullptr;

  Index own_side() const { return left == nullptr ? grid.row_group : grid.column_group; }
  // Of k that a piece packs at a time.
  Index own_depth() const {
    if (left != nullptr && right != nullptr) return padded(k);
    const Index most = std::max(kStretch, kOwnElements / own_side() / kStretch * kStretch);
    return std::min(padded(k), most);
  }
  Index own_elements() const {
    if (left != nullptr && right != nullptr) return 0;
    return left == nullptr ? left_elements(own_side(), own_depth())
                           : own_depth() * round_up(own_side(), kBf16Side);
  }
};

// Some rows and columns of a product, on one thread.
class Piece {
 public:
  Piece(const Bf16Target& target, const Bf16Kernel& kernel, const Product& p, std::uint16_t* own,
        Index m0, Index n0)
      : target_(target),
        kernel_(kernel),
        p_(p),
        own_(own),
        m0_(m0),
        m1_(std::min(p.m, m0 + p.grid.row_group)),
        n0_(n0),
        n1_(std::min(p.n, n0 + p.grid.column_group)) {}

  void run() {
    kernel_.begin();
    for (Index k = 0; k < p_.k || k == 0; k += std::max(p_.own_depth(), kStretch)) {
      const Index end = std::min(p_.k, k + p_.own_depth());
      place(k, end);
      for (Index k0 = k; k0 < end || k0 == 0; k0 += kStretch) stretch(k0, end);
    }
    kernel_.end();
  }

 private:
  // Where the operands of [k, end) stand, packed here where they are not yet.
  void place(Index k, Index end) {
    first_ = k;
    row_ = bf16_left_row(p_.left == nullptr ? p_.own_depth() : p_.k);
    panel_ = (p_.right == nullptr ? p_.own_depth() : padded(p_.k)) * kBf16Panel;
    left_ = p_.left + m0_ * row_ + k;
    right_ = p_.right + n0_ / kBf16Panel * panel_ + k * kBf16Panel;
    if (p_.left == nullptr) {
      const auto pack = p_.left_transposed ? pack_columns : pack_rows;
      pack(target_, p_.left_source, m0_, m1_, k, end, own_, row_);
      left_ = own_;
    } else if (p_.right == nullptr) {
      pack_right(target_, p_.right_source, n0_, n1_, k, end, own_, panel_);
      right_ = own_;
    }
  }

  void stretch(Index k, Index end) const {
    Bf16Block b;
    b.left_row = row_;
    b.right_panel = panel_;
    b.depth = padded(std::min(kStretch, end - k));
    const bool opens = k == 0 && !p_.epilogue.accumulate;
    const bool finishes = k + kStretch >= p_.k && !p_.epilogue.accumulate;
    for (Index begin = n0_; begin < n1_; begin += kColumnsTogether) {
      const Index last = std::min(n1_, begin + kColumnsTogether);
      for (Index m = m0_; m < m1_; m += kBf16Side) {
        b.left = left_ + (m - m0_) * row_ + (k - first_);
        for (Index n = begin; n < last; n += kBf16Side) {
          b.right = right_ + (n - n0_) / kBf16Panel * panel_ + (k - first_) * kBf16Panel;
          block(b, m, n, opens, finishes);
        }
      }
    }
  }

  void block(Bf16Block& b, Index m, Index n, bool opens, bool finishes) const {
    const Index rows = std::min(kBf16Side, p_.m - m), columns = std::min(kBf16Side, p_.n - n);
    const Index stride = p_.c.stride(0);
    float* c = p_.c.data() + m * stride + n;
    const bool whole = rows == kBf16Side && columns == kBf16Side;
    alignas(64) float sums[kBf16Side * kBf16Side];
    b.from = opens ? nullptr : whole ? c : sums;
    b.from_row = whole ? stride : kBf16Side;
    b.to = whole && !finishes ? c : sums;
    b.to_row = whole && !finishes ? stride : kBf16Side;
    if (b.from == sums) copy(c, stride, rows, columns, sums, kBf16Side);
    if (finishes) fetch_operand(m, n, rows);
    kernel_.block(b);
    if (finishes) {
      target_.finish(p_.epilogue, m, n, rows, columns, sums, c, stride);
    } else if (!whole) {
      copy(sums, kBf16Side, rows, columns, c, stride);
    }
  }

  // What the epilogue will read, meanwhile.
  void fetch_operand(Index m, Index n, Index rows) const {
    const ConstMatrix& operand =
        p_.epilogue.residual ? p_.epilogue.residual : p_.epilogue.activation_input;
    if (!operand) return;
    constexpr Index kLineFloats = 16;
    for (Index i = m; i < m + rows; ++i) {
      __builtin_prefetch(operand[i].data() + n);
      __builtin_prefetch(operand[i].data() + n + kLineFloats);
    }
  }

  static void copy(const float* from, Index from_row, Index rows, Index columns, float* to,
                   Index to_row) {
    for (Index i = 0; i < rows; ++i) std::copy_n(from + i * from_row, columns, to + i * to_row);
  }

  const Bf16Target& target_;
  const Bf16Kernel& kernel_;
  const Product& p_;
  std::uint16_t* own_;
  Index m0_, m1_, n0_, n1_;
  // Of what is packed: its first k, and the strides.
  Index first_ = 0, row_ = 0, panel_ = 0;
  const std::uint16_t *left_ = nullptr, *right_ = nullptr;
};

void compute(const Runtime& run, Products products, const Product& p) {
  const Bf16Kernel& kernel = bf16_kernel(run.isa(), products, bf16_unit(run.isa(), products));
  const Bf16Target& target = bf16_target(run.isa());
  const Index rows = ceil_div(p.m, p.grid.row_group), columns = ceil_div(p.n, p.grid.column_group);
  run.reserve_worker_scratch(static_cast<std::size_t>((p.own_elements() + 1) / 2));
  run.pool().run(rows * columns, [&](Index item, int worker) {
    auto* own = reinterpret_cast<std::uint16_t*>(run.worker_scratch(worker));
    Piece(target, kernel, p, own, item % rows * p.grid.row_group, item / rows * p.grid.column_group)
        .run();
  });
}

double flops(Index m, Index n, Index k) {
  return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
}

// Scratch for both operands: the left one first.
struct Scratch {
  std::uint16_t *left, *right;

  Scratch(const Runtime& run, Index left_size, Index right_size) {
    constexpr Index kLine = 32;
    const Index room = round_up(left_size, kLine);
    const auto elements = static_cast<std::size_t>(room + right_size);
    left = reinterpret_cast<std::uint16_t*>(run.shared_scratch((elements + 1) / 2));
    right = left + room;
  }
};

// How the left operand comes to the pieces: each packs its own rows where there are enough of them,
// otherwise it is packed for all, unless it was rounded before.
struct Plan {
  Grid grid;
  bool by_rows, packs_left;

  Plan(const Runtime& run, const Bf16Operand& a, Index k, Index n) {
    const Index strip = strip_of(a.rows(), run.threads(), 4);
    by_rows = strip > 0 && Bf16Panels::elements(k, n) <= kSharedElements;
    grid = by_rows ? Grid{strip, round_up(n, kBf16Side)} : square_grid(a.rows(), n, run.threads());
    packs_left = !by_rows && a.rounded.data == nullptr;
  }
};

// `left` is scratch for the left operand where the plan packs it.
void multiply(const Runtime& run, Products products, const Bf16Operand& a, const Bf16Panels& b,
              Matrix c, const Bf16Epilogue& epilogue, const Plan& plan, std::uint16_t* left) {
  const Index m = a.rows();
  Product p{m, b.n, b.k, c, epilogue, plan.grid};
  p.right = b.data;
  p.left_source = a;
  p.left = plan.packs_left ? left : a.rounded.data;
  if (plan.packs_left) {
    const Bf16Target& target = bf16_target(run.isa());
    const Index row = bf16_left_row(b.k);
    run.pool().run(ceil_div(m, kPackRows), [&](Index piece, int) {
      const Index begin = piece * kPackRows;
      pack_rows(target, a, begin, std::min(m, begin + kPackRows), 0, b.k, left + begin * row, row);
    });
  }
  compute(run, products, p);
}

}  // namespace

Index Bf16Rows::elements(Index m, Index k) { return round_up(m, kBf16Side) * bf16_left_row(k); }
Index Bf16Panels::elements(Index k, Index n) { return padded(k) * round_up(n, kBf16Side); }

void pack_panels(const Runtime& run, const Right& source, Bf16Role role, const Bf16Panels& to) {
  assert(source.form != Right::Form::kPacked && source.k() == to.k && source.n() == to.n);
  const Bf16Target& target = bf16_target(run.isa());
  const bool plain = source.form == Right::Form::kPlain;
  // Whole rows of the source: all of k of two panels, or some rows of k.
  const Index across = plain ? kPackPanels * kBf16Panel : kBf16Side;
  const Index along = plain ? kBf16Depth : padded(to.k), stride = padded(to.k) * kBf16Panel;
  const Index groups = ceil_div(to.n, across), row = source.matrix.stride(0);
  run.pool().run(groups * ceil_div(to.k, along), [&](Index item, int) {
    const Index n = item % groups * across, begin = item / groups * along;
    for (Index k = begin; k < std::min(to.k, begin + along); k += kBf16Depth) {
      const float* from = source.matrix.data() + (plain ? k * row + n : n * row + k);
      (plain ? target.pack_right : target.pack_right_transposed)(
          from, row, std::min(kBf16Depth, to.k - k), std::min(across, to.n - n), floor_of(role),
          to.data + n / kBf16Panel * stride + k * kBf16Panel, stride);
    }
  });
}

void matmul_bf16(const Runtime& run, Products products, const Bf16Operand& a, const Bf16Panels& b,
                 Matrix c, const Bf16Epilogue& epilogue) {
  const Index m = a.rows();
  assert(a.columns() == b.k && c.dim(0) == m && c.dim(1) == b.n && !epilogue.accumulate);
  if (m == 0 || b.n == 0) return;
  const ProfileScope scope(run, Part::kMatmul, flops(m, b.n, b.k), 0.0);
  const Plan plan(run, a, b.k, b.n);
  const Scratch scratch(run, plan.packs_left ? left_elements(m, b.k) : 0, 0);
  multiply(run, products, a, b, c, epilogue, plan, scratch.left);
}

void matmul_bf16(const Runtime& run, Products products, const Bf16Operand& a, const Right& b,
                 Bf16Role b_role, Matrix c, const Bf16Epilogue& epilogue) {
  const Index m = a.rows(), k = b.k(), n = b.n();
  assert(a.columns() == k && c.dim(0) == m && c.dim(1) == n && !epilogue.accumulate);
  if (m == 0 || n == 0) return;
  const ProfileScope scope(run, Part::kMatmul, flops(m, n, k), 0.0);
  const Plan plan(run, a, k, n);
  const Scratch scratch(run, plan.packs_left ? left_elements(m, k) : 0, Bf16Panels::elements(k, n));
  const Bf16Panels panels{scratch.right, k, n};
  pack_panels(run, b, b_role, panels);
  multiply(run, products, a, panels, c, epilogue, plan, scratch.left);
}

// Each piece packs its part of the wider operand and reads all of the other one.
void matmul_transposed_accumulate_bf16(const Runtime& run, Products products, const Bf16Operand& a,
                                       const Bf16Operand& b, Matrix c) {
  const Index k = a.rows(), m = a.columns(), n = b.columns();
  assert(b.rows() == k && b.rounded.data == nullptr && c.dim(0) == m && c.dim(1) == n);
  if (m == 0 || n == 0 || k == 0) return;
  const ProfileScope scope(run, Part::kMatmul, flops(m, n, k), 0.0);
  const Bf16Target& target = bf16_target(run.isa());
  const bool own_left = m > n;
  const Index strip = strip_of(std::max(m, n), run.threads(), 3);
  const Index side = strip > 0 ? strip : kBf16Side;
  Bf16Epilogue epilogue;
  epilogue.accumulate = true;
  Product p{
      m,        n,
      k,        c,
      epilogue, own_left ? Grid{side, round_up(n, kBf16Side)} : Grid{round_up(m, kBf16Side), side},
      a,        b,
      true};
  const Scratch scratch(run, own_left ? 0 : left_elements(m, k),
                        own_left ? Bf16Panels::elements(k, n) : 0);
  if (own_left) {
    pack_panels(run, Right::plain(b.matrix), b.role, {scratch.right, k, n});
    p.right = scratch.right;
  } else {
    p.left = scratch.left;
    run.pool().run(ceil_div(k, kBf16Depth), [&](Index piece, int) {
      const Index k0 = piece * kBf16Depth;
      pack_columns(target, a, 0, m, k0, std::min(k, k0 + kBf16Depth), scratch.left + k0,
                   bf16_left_row(k));
    });
  }
  compute(run, products, p);
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
