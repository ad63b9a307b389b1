#include "prenorm/kernels/cross_entropy.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

#include "prenorm/base/portable_math.h"
#include "prenorm/kernels/each_row.h"

#ifndef PRENORM_KERNELS_CROSS_ENTROPY_TARGET  // this file is read once for each target
#define PRENORM_KERNELS_CROSS_ENTROPY_TARGET
namespace prenorm::kernels {

// Exponentials of a row are taken as q = e^(x − shift) / 2^power, which needs no rounded difference
// to the row's maximum: for ordinary rows the shift is 0 and the division is exact.
struct RowBase {
  float shift;    // 0, or the maximum where that is too large to scale by a power of two
  float power;    // an integer near (maximum − shift) / log 2
  float maximum;  // − shift
};

constexpr Index kNoColumn = -1;

struct CrossEntropyTarget {
  RowBase (*base)(const float* x, Index count);
  // Σ q over the row without column `skipped`; y[v] = q[v] where y is given, the skipped one 0.
  // x and y may alias.
  double (*exponentials)(const RowBase& base, const float* x, Index count, Index skipped, float* y);
  void (*multiply)(float* y, Index count, float factor);
};

}  // namespace prenorm::kernels
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "prenorm/kernels/cross_entropy.cc"
#include "prenorm/kernels/targets.h"
// The per-target parts come after the target has been chosen.
#include "prenorm/kernels/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace prenorm::kernels::HWY_NAMESPACE {
#if PRENORM_FMA_TARGET
namespace {

constexpr float kLowest = -std::numeric_limits<float>::infinity();
constexpr float kLargestUnshifted = 0x1p20f;
constexpr float kReach = 110.0f;  // e^−110 is far below half the smallest denormal

RowBase base(const float* x, Index count) {
  F16 top = set_f(kLowest);
  Index i = 0;
  for (; i + kLanes <= count; i += kLanes) top = max(load_f(x + i), top);
  if (i < count) top = max(load_f_part(x + i, count - i, kLowest), top);
  const float maximum = max_lanes(top);
  if (maximum == kLowest) return {0.0f, 0.0f, 0.0f};  // every q is 0 then
  if (!(maximum >= -kLargestUnshifted && maximum <= kLargestUnshifted)) {
    return {maximum, 0.0f, 0.0f};
  }
  const float power = (maximum * 0x1.715476p0f + kRoundToInteger) - kRoundToInteger;
  return {0.0f, power, maximum};
}

// q of one vector, in parts.
HWY_INLINE Power exponential(const RowBase& row, VF x) {
  x = hn::Sub(x, splat(row.shift));
  const VF lowest = splat(row.maximum - kReach);
  const hn::Mask<DF> vanishes = hn::Lt(x, lowest);
  x = hn::IfThenElse(vanishes, lowest, x);
  const VF magic = splat(kRoundToInteger + (64.0f + 127.0f) - row.power);
  const VF t = hn::MulAdd(x, splat(0x1.715476p0f), magic);
  const VF n = hn::Sub(t, magic);
  VF f = hn::MulSub(x, splat(0x1.715476p0f), n);
  f = hn::MulAdd(x, splat(0x1.4ae0cp-26f), f);
  const Power q = exp2_parts(f, t);
  return {q.fraction, hn::IfThenZeroElse(vanishes, q.scale)};
}

// sum += (1 + fraction) * scale, without the rounding to float that q has.
HWY_INLINE void accumulate(const F16& fraction, const F16& scale, D16& sum) {
  PRENORM_EACH_F(i) {
    const VD f0 = hn::PromoteTo(DD(), hn::LowerHalf(DHalf(), fraction.v[i]));
    const VD f1 = hn::PromoteTo(DD(), hn::UpperHalf(DHalf(), fraction.v[i]));
    const VD s0 = hn::PromoteTo(DD(), hn::LowerHalf(DHalf(), scale.v[i]));
    const VD s1 = hn::PromoteTo(DD(), hn::UpperHalf(DHalf(), scale.v[i]));
    sum.v[2 * i] = hn::Add(sum.v[2 * i], hn::MulAdd(f0, s0, s0));
    sum.v[2 * i + 1] = hn::Add(sum.v[2 * i + 1], hn::MulAdd(f1, s1, s1));
  }
}

HWY_INLINE F16 step(const RowBase& row, const F16& x, D16& sum) {
  F16 fraction, scale, q;
  PRENORM_EACH_F(i) {
    const Power e = exponential(row, x.v[i]);
    fraction.v[i] = e.fraction;
    scale.v[i] = e.scale;
    q.v[i] = hn::Mul(hn::MulAdd(e.fraction, e.scale, e.scale), splat(0x1p-64f));
  }
  accumulate(fraction, scale, sum);
  return q;
}

// x with −∞ in one of its sixteen lanes.
HWY_INLINE F16 without_lane(const F16& x, Index lane) {
  F16 r;
  PRENORM_EACH_F(i) {
    const VF lanes = hn::Iota(DF(), static_cast<float>(i * kFloatLanes));
    r.v[i] = hn::IfThenElse(hn::Eq(lanes, splat(static_cast<float>(lane))), splat(kLowest), x.v[i]);
  }
  return r;
}

double exponentials(const RowBase& row, const float* x, Index count, Index skipped, float* y) {
  const Index skipped_block = skipped == kNoColumn ? count : skipped / kLanes * kLanes;
  D16 sum = set_d(0.0);
  for (Index i = 0; i < count; i += kLanes) {
    const Index rest = count - i;
    F16 values = rest >= kLanes ? load_f(x + i) : load_f_part(x + i, rest, kLowest);
    if (i == skipped_block) values = without_lane(values, skipped - i);
    const F16 q = step(row, values, sum);
    if (y == nullptr) continue;
    if (rest >= kLanes) {
      store_f(q, y + i);
    } else {
      store_f_part(q, y + i, rest);
    }
  }
  return sum_lanes(sum) * 0x1p-64;
}

void multiply(float* y, Index count, float factor) {
  const F16 f = set_f(factor);
  Index i = 0;
  for (; i + kLanes <= count; i += kLanes) store_f(mul(load_f(y + i), f), y + i);
  for (; i < count; ++i) y[i] *= factor;
}

}  // namespace

const CrossEntropyTarget kCrossEntropyTarget = {base, exponentials, multiply};

#endif  // PRENORM_FMA_TARGET
}  // namespace prenorm::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace prenorm::kernels {
namespace {

PRENORM_TARGET_TABLE(CrossEntropyTarget, cross_entropy_target, kCrossEntropyTarget)

// The target's exponential and its logarithm, beside the sum of the others.
struct RowLoss {
  double others;
  double log_target;
  double target;

  double total() const { return others + target; }
  // log((others + target) / target), with all digits of a loss near 0.
  double loss() const {
    return others <= target ? portable_log1p(others / target) : portable_log(total()) - log_target;
  }
};

// y: null, or where the row's exponentials go.
RowLoss row_loss(const CrossEntropyTarget& target, const float* x, Index count, TokenId id,
                 float* y) {
  assert(id >= 0 && id < count);
  const RowBase base = target.base(x, count);
  RowLoss row;
  const double shifted = static_cast<double>(x[id]) - static_cast<double>(base.shift);
  const double power = base.power;
  // log 2 in two parts, of which the first times the power is exact.
  row.log_target = (shifted - power * 0x1.62e42ffp-1) - power * -0x1.718432a1b0e26p-35;
  row.target = portable_exp(row.log_target);
  row.others = target.exponentials(base, x, count, id, y);
  return row;
}

// z_target − mean z: what smoothing multiplies by ε. One chain of additions, in ascending order.
double above_mean(const float* z, Index count, TokenId id) {
  double sum = 0.0;
  for (Index v = 0; v < count; ++v) sum += static_cast<double>(z[v]);
  return static_cast<double>(z[id]) - sum / static_cast<double>(count);
}

// Adds scale · d/dz of ε (z_target − mean z) to the row's gradient, whose target's is given apart.
void add_smoothing(float* dz, Index count, TokenId id, double target_gradient, double smoothing) {
  const double share = smoothing / static_cast<double>(count);
  for (Index v = 0; v < count; ++v) dz[v] = static_cast<float>(static_cast<double>(dz[v]) - share);
  dz[id] = static_cast<float>(target_gradient + smoothing - share);
}

}  // namespace

void cross_entropy_forward(const Runtime& run, ConstMatrix logits, View<const TokenId, 1> targets,
                           DoubleVector losses, double label_smoothing) {
  assert(targets.dim(0) == logits.dim(0) && losses.dim(0) == logits.dim(0));
  const CrossEntropyTarget& target = cross_entropy_target(run.isa());
  const Index columns = logits.dim(1);
  each_row(run, logits.dim(0), columns, [&](Index n) {
    const TokenId id = targets[n];
    const float* z = logits[n].data();
    losses[n] = id == kIgnoreTarget ? 0.0 : row_loss(target, z, columns, id, nullptr).loss();
    if (label_smoothing == 0.0 || id == kIgnoreTarget) return;
    losses[n] += label_smoothing * above_mean(z, columns, id);
  });
}

void cross_entropy_forward_backward(const Runtime& run, Matrix logits,
                                    View<const TokenId, 1> targets, double scale,
                                    DoubleVector losses, double label_smoothing) {
  assert(targets.dim(0) == logits.dim(0) && losses.dim(0) == logits.dim(0));
  const CrossEntropyTarget& target = cross_entropy_target(run.isa());
  const Index columns = logits.dim(1);
  each_row(run, logits.dim(0), columns, [&](Index n) {
    float* z = logits[n].data();
    const TokenId id = targets[n];
    if (id == kIgnoreTarget) {
      losses[n] = 0.0;
      std::fill_n(z, columns, 0.0f);
      return;
    }
    const double smoothed =
        label_smoothing == 0.0 ? 0.0 : label_smoothing * above_mean(z, columns, id);
    const RowLoss row = row_loss(target, z, columns, id, z);
    losses[n] = row.loss();
    const double factor = scale / row.total();
    target.multiply(z, columns, static_cast<float>(factor));
    // probability − 1 = −(the others' probability), which keeps its digits near 0.
    z[id] = static_cast<float>(-factor * row.others);
    if (label_smoothing == 0.0) return;
    losses[n] += smoothed;
    add_smoothing(z, columns, id, -factor * row.others, scale * label_smoothing);
  });
}

void softmax(const Runtime& run, ConstMatrix x, Matrix y) {
  assert(x.shape() == y.shape());
  const CrossEntropyTarget& target = cross_entropy_target(run.isa());
  const Index columns = x.dim(1);
  each_row(run, x.dim(0), columns, [&](Index n) {
    const RowBase base = target.base(x[n].data(), columns);
    const double sum = target.exponentials(base, x[n].data(), columns, kNoColumn, y[n].data());
    if (sum == 0.0) return;  // −∞ alone: zeros, as attention treats a row that sees nothing
    target.multiply(y[n].data(), columns, static_cast<float>(1.0 / sum));
  });
}

}  // namespace prenorm::kernels
#endif
