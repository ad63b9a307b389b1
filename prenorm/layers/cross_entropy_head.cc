#include "prenorm/layers/cross_entropy_head.h"

#include <fmt/format.h>

#include <algorithm>

#include "prenorm/kernels/cross_entropy.h"
#include "prenorm/kernels/profile.h"

namespace prenorm {
namespace {

// Whole sum blocks of the weight gradient: chunks of any multiple give the same bits.
constexpr Index kChunk = 256;
static_assert(kChunk % kernels::kSumBlock == 0);

double product_flops(ConstMatrix x, const Parameter& weight) {
  return 2.0 * static_cast<double>(x.dim(0)) * static_cast<double>(weight.size());
}

}  // namespace

CrossEntropyHead::Scratch CrossEntropyHead::plan(Arena& arena, Index rows) const {
  const Index chunk = std::min(kChunk, rows);
  return {arena.matrix(chunk, weight_.shape[0]), arena.take<double, 1>({chunk})};
}

void CrossEntropyHead::check(ConstMatrix x, View<const TokenId, 1> targets) const {
  check_shape("CrossEntropyHead", weight_.name, "x", x, targets.dim(0), weight_.shape[1]);
  for (Index n = 0; n < targets.dim(0); ++n) {
    const TokenId id = targets[n];
    if (id != kernels::kIgnoreTarget && (id < 0 || id >= weight_.shape[0])) {
      throw ShapeError(
          fmt::format("CrossEntropyHead '{}': expected targets in [0, {}) or -1, found {} at {}",
                      weight_.name, weight_.shape[0], id, n));
    }
  }
}

void CrossEntropyHead::logits(const Runtime& run, ConstMatrix x, Matrix logits) const {
  check_shape("CrossEntropyHead", weight_.name, "x", x, -1, weight_.shape[1]);
  check_shape("CrossEntropyHead", weight_.name, "logits", logits, x.dim(0), weight_.shape[0]);
  const auto right = packed_.serves(run) ? kernels::Right::panels(packed_)
                                         : kernels::Right::transposed(weight_.matrix());
  kernels::matmul(run, x, right, logits, {});
}

LossSum CrossEntropyHead::sum(View<const TokenId, 1> targets, const Scratch& scratch) const {
  LossSum total;
  for (Index n = 0; n < targets.dim(0); ++n) {
    total.loss += scratch.losses[n];
    total.count += targets[n] == kernels::kIgnoreTarget ? 0 : 1;
  }
  return total;
}

LossSum CrossEntropyHead::forward(const Runtime& run, ConstMatrix x, View<const TokenId, 1> targets,
                                  const Scratch& scratch) const {
  check(x, targets);
  const ProfileScope scope(run, Part::kHead, product_flops(x, weight_), 0.0);
  LossSum total;
  for (Index n = 0; n < x.dim(0); n += kChunk) {
    const Index rows = std::min(kChunk, x.dim(0) - n);
    const Matrix z = scratch.logits.rows(0, rows);
    logits(run, x.rows(n, rows), z);
    kernels::cross_entropy_forward(run, z, targets.rows(n, rows), scratch.losses.rows(0, rows));
    total += sum(targets.rows(n, rows), scratch);
  }
  return total;
}

// dz = scale (softmax(z) − one-hot),  dx = dz W,  dW = dzᵀ x.
LossSum CrossEntropyHead::forward_backward(const Runtime& run, ConstMatrix x,
                                           View<const TokenId, 1> targets, double scale, Matrix dx,
                                           const Scratch& scratch, LossSum before) {
  check(x, targets);
  check_shape("CrossEntropyHead", weight_.name, "dx", dx, x.dim(0), weight_.shape[1]);
  const ProfileScope scope(run, Part::kHead, 3.0 * product_flops(x, weight_), 0.0);
  LossSum total = before;
  for (Index n = 0; n < x.dim(0); n += kChunk) {
    const Index rows = std::min(kChunk, x.dim(0) - n);
    const Matrix z = scratch.logits.rows(0, rows);
    logits(run, x.rows(n, rows), z);
    kernels::cross_entropy_forward_backward(run, z, targets.rows(n, rows), scale,
                                            scratch.losses.rows(0, rows));
    total += sum(targets.rows(n, rows), scratch);
    kernels::matmul(run, z, kernels::Right::plain(weight_.matrix()), dx.rows(n, rows), {});
    kernels::matmul_transposed_accumulate(run, z, x.rows(n, rows), weight_.grad_matrix());
  }
  return total;
}

void CrossEntropyHead::pack(const Runtime& run, kernels::WeightFormat format) {
  packed_ = kernels::PackedMatrix(run, kernels::Right::transposed(weight_.matrix()), format);
}

}  // namespace prenorm
