// A product of a few rows with a matrix that is not packed: generation, where every step reads each
// weight once. What counts is that memory is read in long runs: of a plain matrix several whole
// stretches of rows side by side, of a transposed one its rows from end to end. Per-target include.
#if defined(PRENORM_KERNELS_MATMUL_FEW_ROWS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PRENORM_KERNELS_MATMUL_FEW_ROWS_INL_H
#undef PRENORM_KERNELS_MATMUL_FEW_ROWS_INL_H
#else
#define PRENORM_KERNELS_MATMUL_FEW_ROWS_INL_H
#endif

#include <algorithm>

#include "prenorm/kernels/fetch_ahead.h"
#include "prenorm/kernels/matmul_finish-inl.h"
#include "prenorm/kernels/matmul_target.h"
#include "prenorm/kernels/pack-inl.h"
#include "prenorm/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace prenorm::kernels::HWY_NAMESPACE {
#if PRENORM_FMA_TARGET
namespace {

// Rows of b that are read side by side.
constexpr Index kDepth = 8;
// Sums of a strip of columns stay in the nearest cache.
constexpr Index kStripSums = 4096;
// Rows of a transposed b that are read side by side.
constexpr Index kTransposedColumns = 32;

constexpr Index kFewRowsScratch = 2 * kStripSums + kSumBlock * kTransposedColumns;

// What add_depth() reads and adds to.
struct FewRows {
  const float* a;
  Index a_row;
  const float* b;
  Index b_row;
  Index k, columns;  // columns from the first of b and `block` on
  float* block;
  Index block_row;  // a multiple of a vector
  bool from_zero;
};

// The first `lanes` of a vector, the others zero; nothing beyond them is read or written.
HWY_INLINE VF load_some(const float* from, Index lanes) {
  const DF d;
  if (lanes == kFloatLanes) return hn::LoadU(d, from);
  alignas(64) float some[kFloatLanes] = {};
  std::copy_n(from, lanes, some);
  return hn::Load(d, some);
}
HWY_INLINE void store_some(VF x, Index lanes, float* to) {
  const DF d;
  if (lanes == kFloatLanes) return hn::StoreU(x, d, to);
  alignas(64) float some[kFloatLanes];
  hn::Store(x, d, some);
  std::copy_n(some, lanes, to);
}

// block[i][j] goes on with Σ_k a[i][k] b[k][j], k ascending.
template <int Rows, int Depth>
HWY_INLINE void add_vector(const FewRows& f, Index j, Index k, Index lanes) {
  const DF d;
  VF sum[Rows];
  float* at = f.block + j;
#pragma GCC unroll 8
  for (int i = 0; i < Rows; ++i) {
    sum[i] = f.from_zero && k == 0 ? hn::Zero(d) : hn::Load(d, at + i * f.block_row);
  }
  const float* b = f.b + k * f.b_row + j;
#pragma GCC unroll 8
  for (int r = 0; r < Depth; ++r) {
    const VF row = load_some(b + r * f.b_row, lanes);
#pragma GCC unroll 8
    for (int i = 0; i < Rows; ++i) {
      sum[i] = hn::MulAdd(hn::Set(d, f.a[i * f.a_row + k + r]), row, sum[i]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < Rows; ++i) hn::Store(sum[i], d, at + i * f.block_row);
}

template <int Rows, int Depth>
HWY_INLINE void add_depth(const FewRows& f, Index k) {
  const Index whole = f.columns / kFloatLanes * kFloatLanes;
  for (Index j = 0; j < whole; j += kFloatLanes) add_vector<Rows, Depth>(f, j, k, kFloatLanes);
  if (whole < f.columns) add_vector<Rows, Depth>(f, whole, k, f.columns - whole);
}

template <int Rows>
void add_few_rows(const FewRows& f) {
  Index k = 0;
  for (; k + kDepth <= f.k; k += kDepth) add_depth<Rows, kDepth>(f, k);
  for (; k < f.k; ++k) add_depth<Rows, 1>(f, k);
}

template <int Rows>
void add_few_rows_of(Index rows, const FewRows& f) {
  if constexpr (Rows > 0) {
    if (rows == Rows) return add_few_rows<Rows>(f);
    add_few_rows_of<Rows - 1>(rows, f);
  }
}

// A strip of columns of a piece, block after block of k.
class FewRowsStrip {
 public:
  FewRowsStrip(const MatmulPiece& piece, Index n, Index columns)
      : p_(piece),
        n_(n),
        columns_(columns),
        row_(round_up(columns, kFloatLanes)),
        block_(p_.scratch),
        sums_(block_ + kStripSums),
        panel_(sums_ + kStripSums) {}

  void run() {
    for (Index k = 0; k < p_.k || k == 0; k += kSumBlock) {
      const Index end = std::min(p_.k, k + kSumBlock);
      multiply(k, end);
      for (Index i = 0; i < p_.rows; ++i) close(i, k, end);
    }
    const Epilogue& e = *p_.epilogue;
    if (!does_more_than_store(e)) return;
    finish_rows(e, p_.m, p_.n + n_, p_.rows, columns_, c(0), p_.c_row);
  }

 private:
  float* c(Index i) const { return p_.c + i * p_.c_row + n_; }

  // block = a[:, k..end] b[k..end, strip].
  void multiply(Index k, Index end) const {
    FewRows f{p_.a + k, p_.a_row, nullptr, 0, end - k, columns_, block_, row_, true};
    if (p_.b_transposed) {
      pack_block(k, end);
      f.b = panel_;
      f.b_row = row_;
    } else {
      f.b = p_.b + k * p_.b_row + n_;
      f.b_row = p_.b_row;
    }
    add_few_rows_of<kFewRows>(p_.rows, f);
  }

  // The block [k, end) of a transposed b, while the one after it is fetched: its rows are too many
  // for the processor to foresee.
  void pack_block(Index k, Index end) const {
    constexpr Index kSlice = 16;
    const Index next_n = end < p_.k ? n_ : n_ + columns_, next_k = end < p_.k ? end : 0;
    FetchAhead ahead;
    ahead.add(p_.b + next_n * p_.b_row + next_k, p_.b_row, std::min(columns_, p_.columns - next_n),
              std::min(kSumBlock, p_.k - next_k));
    ahead.spread_over(ceil_div(end - k, kSlice));
    for (Index at = k; at < end; at += kSlice) {
      pack_transposed(p_.b + n_ * p_.b_row + at, p_.b_row, std::min(kSlice, end - at), columns_,
                      row_, panel_ + (at - k) * row_, row_);
      ahead.fetch();
    }
  }

  // The block to the group's sums; with the group's last these to c.
  void close(Index i, Index k, Index end) const {
    const Epilogue& e = *p_.epilogue;
    const bool opens = k % kSumGroup == 0, closes = end == p_.k || end % kSumGroup == 0;
    const bool from_start = k < kSumGroup && !e.accumulate;
    const float* start = from_start && e.bias ? e.bias.data() + p_.n + n_ : nullptr;
    for (Index j = 0; j < columns_; j += kFloatLanes) {
      close_vector(i, j, opens, closes, from_start, start);
    }
  }

  void close_vector(Index i, Index j, bool opens, bool closes, bool from_start,
                    const float* start) const {
    const DF d;
    const Index lanes = std::min(kFloatLanes, columns_ - j);
    float* sums = sums_ + i * row_ + j;
    VF t = hn::Load(d, block_ + i * row_ + j);
    if (!opens) t = hn::Add(hn::Load(d, sums), t);
    if (!closes) return hn::Store(t, d, sums);
    float* to = c(i) + j;
    VF before = hn::Zero(d);
    if (!from_start) {
      before = load_some(to, lanes);
    } else if (start != nullptr) {
      before = load_some(start + j, lanes);
    }
    store_some(hn::Add(before, t), lanes, to);
  }

  const MatmulPiece& p_;
  Index n_, columns_, row_;
  float* block_;  // [rows][row_]: S_b
  float* sums_;   // [rows][row_]: G_g so far
  float* panel_;  // of a transposed b: a block, [kSumBlock][row_]
};

bool is_few_rows(const MatmulPiece& p) {
  return !p.panels && !p.weight_gradient && p.rows <= kFewRows && p.k > 0;
}

void few_rows_piece(const MatmulPiece& p) {
  const Index most = p.b_transposed ? kTransposedColumns : kStripSums / p.rows;
  const Index strip = std::max(kFloatLanes, most / kFloatLanes * kFloatLanes);
  for (Index n = 0; n < p.columns; n += strip) {
    FewRowsStrip(p, n, std::min(strip, p.columns - n)).run();
  }
}

}  // namespace
#endif  // PRENORM_FMA_TARGET
}  // namespace prenorm::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per-target guard
