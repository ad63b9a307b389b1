// Layer norm, forward and backward.
//
// Forward. One pass takes the moments of d_i = x_i − x_0 in double, S = Σ d_i and Q = Σ d_i², and a
// second writes y. With m = S / C:
//
//   μ = x_0 + m (a pair of doubles),   σ² = (Q − S m) / C,   x̂_i = (x_i − μ) / sqrt(σ² + ε)
//
// The shift x_0 is an element of the row, so (x_0 − μ)² <= (C − 1) σ²: the subtraction in σ² can
// lose no more than log2(C) of the 53 bits, whatever the row's mean, and a constant row has d = 0.
//
// Backward. With a_i = x_i − μ, g_i = γ_i dy_i, r = 1 / sqrt(σ² + ε):
//
//   dx_i = r (g_i − Σ g / C − a_i r² Σ(g a) / C)    dγ_i = Σ_rows dy_i a_i r    dβ_i = Σ_rows dy_i
//
// The sums over rows run in double within blocks of 256 rows; a block's sum is rounded to float and
// added to the gradient. Blocks and strips of columns are computed apart, so nothing depends on who
// computes what.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "prenorm/kernels/layer_norm.cc"
#include "prenorm/kernels/targets.h"

// After targets.h: these are read once for each target.
#include <algorithm>
#include <cmath>

#include "prenorm/kernels/each_row.h"
#include "prenorm/kernels/layer_norm.h"
#include "prenorm/kernels/profile.h"
#include "prenorm/kernels/simd-inl.h"

#ifndef PRENORM_LAYER_NORM_ONCE
#define PRENORM_LAYER_NORM_ONCE
namespace prenorm::kernels {
namespace {

constexpr Index kRowBlock = 256;  // part of the arithmetic, not a tuning knob
constexpr int kGroup = 4;         // rows that are taken together, for speed

// One row of the backward pass, reduced to what its elements need.
struct RowGradient {
  double mean = 0, rstd = 0;
  double g_mean = 0;  // Σ g / C
  double slope = 0;   // r² Σ(g a) / C
};

struct ForwardArgs {
  ConstMatrix x;
  const double *weight = nullptr, *bias = nullptr;  // [C], widened, padded to 16
  double eps = 0;
  Matrix y;
  DoubleVector mean, rstd;
};

struct BackwardArgs {
  ConstMatrix dy, x;
  const double* weight = nullptr;  // [C], widened, padded to 16
  ConstDoubleVector mean, rstd;
  ConstMatrix residual;
  Matrix dx;
};

struct LayerNormTable {
  void (*forward)(const ForwardArgs& args, Index begin, Index end);
  // rows[i] of rows begin + i.
  void (*reduce)(const BackwardArgs& args, Index begin, Index end, RowGradient* rows);
  // dx of `count` <= kGroup rows in columns [first, last); adds to the column sums of `last -
  // first` doubles each. first is a multiple of 16.
  void (*apply)(const BackwardArgs& args, Index begin, Index count, const RowGradient* rows,
                Index first, Index last, double* dweight, double* dbias);
};

}  // namespace
}  // namespace prenorm::kernels
#endif  // PRENORM_LAYER_NORM_ONCE

HWY_BEFORE_NAMESPACE();
namespace prenorm::kernels::HWY_NAMESPACE {
#if PRENORM_FMA_TARGET
namespace {

// What a row's elements need: y = ((x − mean) rstd + rest) γ + β. The mean is a pair of doubles, of
// which the second is at most half a unit of the first; rest = −second · rstd.
struct RowStatistics {
  double mean, rstd, rest;
};

RowStatistics row_statistics(const float* x, Index width, double eps) {
  // The difference as 1 · x − x_0: where adders also convert, they are busy enough.
  const D16 shift = set_d(-static_cast<double>(x[0])), one = set_d(1.0);
  D16 sum = set_d(0.0), squares = set_d(0.0);
  const auto step = [&](const D16& values) HWY_ATTR {
    const D16 d = fma(values, one, shift);
    sum = add(sum, d);
    squares = fma(d, d, squares);
  };
  Index i = 0;
  for (; i + kLanes <= width; i += kLanes) step(load_d(x + i));
  // The lanes past the end hold x_0, which adds nothing.
  if (i < width) step(load_d_part(x + i, width - i, x[0]));
  const auto count = static_cast<double>(width);
  const double total = sum_lanes(sum), m = total / count;
  double variance = (sum_lanes(squares) - total * m) / count;
  if (variance < 0.0) variance = 0.0;
  const double rstd = 1.0 / std::sqrt(variance + eps), first = x[0], mean = first + m;
  // The rounding error of first + m, exactly (Knuth's two-sum).
  const double m_part = mean - first;
  const double second = (first - (mean - m_part)) + (m - m_part);
  return {mean, rstd, -second * rstd};
}

void normalise_row(const float* x, const RowStatistics& s, const ForwardArgs& args, Index width,
                   float* y) {
  const D16 mean = set_d(s.mean), rstd = set_d(s.rstd), rest = set_d(s.rest);
  const auto normalise = [&](const D16& values, Index at) HWY_ATTR {
    const D16 normalised = fma(sub(values, mean), rstd, rest);
    return fma(normalised, load_doubles(args.weight + at), load_doubles(args.bias + at));
  };
  Index i = 0;
  for (; i + kLanes <= width; i += kLanes) store_d(normalise(load_d(x + i), i), y + i);
  if (i < width) {
    store_d_part(normalise(load_d_part(x + i, width - i, x[0]), i), y + i, width - i);
  }
}

void forward(const ForwardArgs& args, Index begin, Index end) {
  const Index width = args.x.dim(1);
  // The statistics of some short rows first: their divisions and roots overlap. Longer rows are
  // limited by memory, which is busiest when each is written right after it is read.
  const Index group = width <= 256 ? kGroup : 1;
  for (Index n = begin; n < end; n += group) {
    RowStatistics rows[kGroup];
    const Index count = std::min(group, end - n);
    for (Index r = 0; r < count; ++r) {
      rows[r] = row_statistics(args.x[n + r].data(), width, args.eps);
    }
    for (Index r = 0; r < count; ++r) {
      normalise_row(args.x[n + r].data(), rows[r], args, width, args.y[n + r].data());
      if (args.mean) args.mean[n + r] = rows[r].mean;
      if (args.rstd) args.rstd[n + r] = rows[r].rstd;
    }
  }
}

RowGradient reduce_row(const float* dy, const float* x, const double* weight, double mean,
                       double rstd, Index width) {
  const D16 centre = set_d(mean);
  D16 sum = set_d(0.0), products = set_d(0.0);
  const auto step = [&](const D16& gradient, const D16& value, Index at) {
    const D16 gamma = load_doubles(weight + at);
    sum = fma(gradient, gamma, sum);
    products = fma(mul(gradient, gamma), sub(value, centre), products);
  };
  Index i = 0;
  for (; i + kLanes <= width; i += kLanes) step(load_d(dy + i), load_d(x + i), i);
  if (i < width) {
    step(load_d_part(dy + i, width - i, 0.0f), load_d_part(x + i, width - i, 0.0f), i);
  }
  const auto count = static_cast<double>(width);
  return {mean, rstd, sum_lanes(sum) / count, rstd * rstd * sum_lanes(products) / count};
}

void reduce(const BackwardArgs& args, Index begin, Index end, RowGradient* rows) {
  for (Index n = begin; n < end; ++n) {
    rows[n - begin] = reduce_row(args.dy[n].data(), args.x[n].data(), args.weight, args.mean[n],
                                 args.rstd[n], args.x.dim(1));
  }
}

// A vector of floats of a row, read as double, and the end of a row.
using VHalf = hn::Vec<DHalf>;
struct Whole {
  HWY_INLINE VHalf load(const float* p) const { return hn::LoadU(DHalf(), p); }
  HWY_INLINE void store(const VHalf& v, float* p) const { hn::StoreU(v, DHalf(), p); }
};
struct Part {
  Index count;
  HWY_INLINE VHalf load(const float* p) const {
    HWY_ALIGN float t[kDoubleLanes] = {};
    for (Index i = 0; i < count; ++i) t[i] = p[i];
    return hn::Load(DHalf(), t);
  }
  HWY_INLINE void store(const VHalf& v, float* p) const {
    HWY_ALIGN float t[kDoubleLanes];
    hn::Store(v, DHalf(), t);
    for (Index i = 0; i < count; ++i) p[i] = t[i];
  }
};

// Rows of a group: pointers to the first and the distances between rows.
struct RowPointers {
  const float *dy, *x, *residual;
  float* dx;
  Index dy_stride, x_stride, residual_stride, dx_stride;
};

// One vector of columns of kRows rows.
template <bool kResidual, int kRows, typename Access>
HWY_INLINE void apply_columns(const Access& access, const RowPointers& p, const RowGradient* rows,
                              const double* weight, Index column, double* dweight, double* dbias) {
  const DD d;
  const VD gamma = hn::LoadU(d, weight + column);
  VD weight_sum = hn::LoadU(d, dweight), bias_sum = hn::LoadU(d, dbias);
  for (int r = 0; r < kRows; ++r) {
    const VD dy = hn::PromoteTo(d, access.load(p.dy + r * p.dy_stride + column));
    const VD x = hn::PromoteTo(d, access.load(p.x + r * p.x_stride + column));
    const VD a = hn::Sub(x, hn::Set(d, rows[r].mean)), rstd = hn::Set(d, rows[r].rstd);
    const VD g = hn::MulSub(dy, gamma, hn::Set(d, rows[r].g_mean));
    const VD gradient = hn::Mul(hn::NegMulAdd(a, hn::Set(d, rows[r].slope), g), rstd);
    weight_sum = hn::MulAdd(dy, hn::Mul(a, rstd), weight_sum);
    bias_sum = hn::Add(bias_sum, dy);
    VHalf out = hn::DemoteTo(DHalf(), gradient);
    if constexpr (kResidual) {
      out = hn::Add(access.load(p.residual + r * p.residual_stride + column), out);
    }
    access.store(out, p.dx + r * p.dx_stride + column);
  }
  hn::StoreU(weight_sum, d, dweight);
  hn::StoreU(bias_sum, d, dbias);
}

template <bool kResidual, int kRows>
void apply_rows(const BackwardArgs& args, Index begin, const RowGradient* from, Index first,
                Index last, double* dweight, double* dbias) {
  RowPointers p{args.dy[begin].data(), args.x[begin].data(), nullptr, args.dx[begin].data(),
                args.dy.stride(0),     args.x.stride(0),     0,       args.dx.stride(0)};
  if constexpr (kResidual) {
    p.residual = args.residual[begin].data();
    p.residual_stride = args.residual.stride(0);
  }
  RowGradient rows[kRows];  // a copy, which the stores below cannot change
  std::copy(from, from + kRows, rows);
  Index c = first;
  for (; c + kDoubleLanes <= last; c += kDoubleLanes) {
    apply_columns<kResidual, kRows>(Whole(), p, rows, args.weight, c, dweight + (c - first),
                                    dbias + (c - first));
  }
  if (c < last) {
    apply_columns<kResidual, kRows>(Part{last - c}, p, rows, args.weight, c, dweight + (c - first),
                                    dbias + (c - first));
  }
}

template <bool kResidual>
void apply_group(const BackwardArgs& args, Index begin, Index count, const RowGradient* rows,
                 Index first, Index last, double* dweight, double* dbias) {
  if (count == kGroup) {
    apply_rows<kResidual, kGroup>(args, begin, rows, first, last, dweight, dbias);
    return;
  }
  for (Index r = 0; r < count; ++r) {
    apply_rows<kResidual, 1>(args, begin + r, rows + r, first, last, dweight, dbias);
  }
}

void apply(const BackwardArgs& args, Index begin, Index count, const RowGradient* rows, Index first,
           Index last, double* dweight, double* dbias) {
  (args.residual ? apply_group<true> : apply_group<false>)(args, begin, count, rows, first, last,
                                                           dweight, dbias);
}

constexpr LayerNormTable kLayerNorm = {forward, reduce, apply};

}  // namespace
#endif  // PRENORM_FMA_TARGET
}  // namespace prenorm::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace prenorm::kernels {
namespace {

PRENORM_TARGET_TABLE(LayerNormTable, layer_norm_table, kLayerNorm)

// About this many elements a piece: some microseconds.

// Copies v widened to double, or `missing` where there is no v; zeros up to a multiple of 16.
void widen(ConstVector v, double missing, Index width, double* out) {
  for (Index i = 0; i < width; ++i) out[i] = v ? static_cast<double>(v[i]) : missing;
  std::fill(out + width, out + round_up(width, 16), 0.0);
}

// dx of rows [begin, end), which lie in one block, in columns [first, last), and the block's column
// sums, rounded. Row gradients come from `known` (of row begin) or are computed here.
void backward_block(const LayerNormTable& table, const BackwardArgs& args, Index begin, Index end,
                    Index first, Index last, const RowGradient* known, double* scratch,
                    float* dweight, float* dbias) {
  const Index room = round_up(last - first, 16);
  double *weight_sum = scratch, *bias_sum = scratch + room;
  std::fill(scratch, scratch + 2 * room, 0.0);
  RowGradient here[kGroup];
  for (Index n = begin; n < end; n += kGroup) {
    const Index count = std::min<Index>(kGroup, end - n);
    const RowGradient* rows = known == nullptr ? here : known + (n - begin);
    if (known == nullptr) table.reduce(args, n, n + count, here);
    table.apply(args, n, count, rows, first, last, weight_sum, bias_sum);
  }
  for (Index c = first; c < last; ++c) {
    dweight[c] = static_cast<float>(weight_sum[c - first]);
    dbias[c] = static_cast<float>(bias_sum[c - first]);
  }
}

// gradient[c] += sums of blocks 0, 1, … in this order. sums: [blocks, width], rows `stride` apart.
void add_blocks(const float* sums, Index blocks, Index stride, Index first, Index last,
                Vector gradient) {
  if (!gradient) return;
  for (Index b = 0; b < blocks; ++b) {
    for (Index c = first; c < last; ++c) gradient[c] += sums[b * stride + c];
  }
}

}  // namespace

void layer_norm_forward(const Runtime& run, ConstMatrix x, ConstVector weight, ConstVector bias,
                        double eps, Matrix y, DoubleVector mean, DoubleVector rstd) {
  const Index rows = x.dim(0), width = x.dim(1);
  if (rows == 0 || width == 0) return;
  const ProfileScope scope(run, Part::kNorm, 0.0, 8.0 * static_cast<double>(rows * width));
  const Index room = round_up(width, 16);
  auto* scratch = reinterpret_cast<double*>(
      run.shared_scratch(static_cast<std::size_t>(2 * room) * sizeof(double) / sizeof(float)));
  widen(weight, 1.0, width, scratch);
  widen(bias, 0.0, width, scratch + room);
  const ForwardArgs args{x, scratch, scratch + room, eps, y, mean, rstd};
  const LayerNormTable& table = layer_norm_table(run.isa());
  const Index step = rows_of_piece(width);
  run.pool().run(ceil_div(rows, step), [&](Index piece, int) {
    table.forward(args, piece * step, std::min(rows, (piece + 1) * step));
  });
}

void layer_norm_backward(const Runtime& run, ConstMatrix dy, ConstMatrix x, ConstVector weight,
                         ConstDoubleVector mean, ConstDoubleVector rstd, ConstMatrix residual,
                         Matrix dx, Vector dweight, Vector dbias) {
  const Index rows = x.dim(0), width = x.dim(1);
  if (rows == 0 || width == 0) return;
  const ProfileScope scope(run, Part::kNorm, 0.0, 16.0 * static_cast<double>(rows * width));
  const Index room = round_up(width, 16), blocks = ceil_div(rows, kRowBlock);
  // Few blocks are cut into strips of columns as well; then the rows are reduced beforehand.
  const Index most = ceil_div(width, 16);
  const Index wanted = blocks >= 3 * run.threads() ? 1 : ceil_div(3 * run.threads(), blocks);
  const Index strip = round_up(ceil_div(width, std::min(wanted, most)), 16);
  const Index strips = ceil_div(width, strip);
  const bool reduce_first = strips > 1;

  const Index row_doubles = reduce_first ? rows * static_cast<Index>(sizeof(RowGradient) / 8) : 0;
  auto* widened = reinterpret_cast<double*>(
      run.shared_scratch(static_cast<std::size_t>(2 * (room + row_doubles) + 2 * blocks * room)));
  auto* row_gradients = reinterpret_cast<RowGradient*>(widened + room);
  auto* block_sums = reinterpret_cast<float*>(widened + room + row_doubles);
  run.reserve_worker_scratch(static_cast<std::size_t>(4 * room));
  widen(weight, 1.0, width, widened);
  const BackwardArgs args{dy, x, widened, mean, rstd, residual, dx};
  const LayerNormTable& table = layer_norm_table(run.isa());

  if (reduce_first) {
    const Index step = rows_of_piece(width);
    run.pool().run(ceil_div(rows, step), [&](Index piece, int) {
      const Index begin = piece * step;
      table.reduce(args, begin, std::min(rows, begin + step), row_gradients + begin);
    });
  }
  run.pool().run(blocks * strips, [&](Index piece, int worker) {
    const Index block = piece / strips, first = piece % strips * strip;
    const Index begin = block * kRowBlock;
    float* sums = block_sums + block * 2 * room;
    backward_block(table, args, begin, std::min(rows, begin + kRowBlock), first,
                   std::min(width, first + strip), reduce_first ? row_gradients + begin : nullptr,
                   reinterpret_cast<double*>(run.worker_scratch(worker)), sums, sums + room);
  });
  const Index columns = 256;
  run.pool().run(ceil_div(width, columns), [&](Index piece, int) {
    const Index first = piece * columns, last = std::min(width, first + columns);
    add_blocks(block_sums, blocks, 2 * room, first, last, dweight);
    add_blocks(block_sums + room, blocks, 2 * room, first, last, dbias);
  });
}

}  // namespace prenorm::kernels
#endif  // HWY_ONCE
