#include "prenorm/layers/cross_entropy_head.h"

#include <fmt/format.h>

#include <algorithm>

#include "prenorm/kernels/cross_entropy.h"
#include "prenorm/kernels/profile.h"

namespace prenorm {

using kernels::Bf16Panels;
using kernels::Bf16Role;

namespace {

// Whole sum blocks of the weight gradient: chunks of any multiple give the same bits.
constexpr Index kChunk = 256;
static_assert(kChunk % kernels::kSumBlock == 0);

double product_flops(ConstMatrix x, const Parameter& weight) {
  return 2.0 * static_cast<double>(x.dim(0)) * static_cast<double>(weight.size());
}

}  // namespace

CrossEntropyHead::Scratch CrossEntropyHead::plan(Arena& arena, Index rows) const {
  const Index chunk = std::min(kChunk, rows), vocabulary = weight_.shape[0];
  Scratch s{arena.matrix(chunk, vocabulary), arena.take<double, 1>({chunk})};
  if (products_ == Products::kFloat32) return s;
  const auto panels = [&](Index k, Index n) -> Bf16Panels {
    return {arena.take<std::uint16_t, 1>({Bf16Panels::elements(k, n)}).data(), k, n};
  };
  s.panels = panels(weight_.shape[1], vocabulary);
  s.dx_panels = panels(vocabulary, weight_.shape[1]);
  return s;
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
  if (products_ != Products::kFloat32) {
    return kernels::matmul_bf16(run, products_, {x, Bf16Role::kValue},
                                kernels::Right::transposed(weight_.matrix()), Bf16Role::kValue,
                                logits, {});
  }
  const auto right = packed_.serves(run) ? kernels::Right::panels(packed_)
                                         : kernels::Right::transposed(weight_.matrix());
  kernels::matmul(run, x, right, logits, {});
}

// Once a pass, for all its chunks.
void CrossEntropyHead::pack_panels(const Runtime& run, const Scratch& scratch,
                                   bool backward) const {
  if (products_ == Products::kFloat32) return;
  const ConstMatrix weight = weight_.matrix();
  kernels::pack_panels(run, kernels::Right::transposed(weight), Bf16Role::kValue, scratch.panels);
  if (!backward) return;
  kernels::pack_panels(run, kernels::Right::plain(weight), Bf16Role::kValue, scratch.dx_panels);
}

void CrossEntropyHead::multiply(const Runtime& run, ConstMatrix x, Matrix z,
                                const Scratch& scratch) const {
  if (products_ == Products::kFloat32) return logits(run, x, z);
  kernels::matmul_bf16(run, products_, {x, Bf16Role::kValue}, scratch.panels, z, {});
}

void CrossEntropyHead::multiply_backward(const Runtime& run, ConstMatrix dz, ConstMatrix x,
                                         Matrix dx, const Scratch& scratch) {
  if (products_ == Products::kFloat32) {
    kernels::matmul(run, dz, kernels::Right::plain(weight_.matrix()), dx, {});
    kernels::matmul_transposed_accumulate(run, dz, x, weight_.grad_matrix());
    return;
  }
  const kernels::Bf16Operand gradient{dz, Bf16Role::kGradient};
  kernels::matmul_bf16(run, products_, gradient, scratch.dx_panels, dx, {});
  kernels::matmul_transposed_accumulate_bf16(run, products_, gradient, {x, Bf16Role::kValue},
                                             weight_.grad_matrix());
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
  pack_panels(run, scratch, false);
  LossSum total;
  for (Index n = 0; n < x.dim(0); n += kChunk) {
    const Index rows = std::min(kChunk, x.dim(0) - n);
    const Matrix z = scratch.logits.rows(0, rows);
    multiply(run, x.rows(n, rows), z, scratch);
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
  pack_panels(run, scratch, true);
  LossSum total = before;
  for (Index n = 0; n < x.dim(0); n += kChunk) {
    const Index rows = std::min(kChunk, x.dim(0) - n);
    const Matrix z = scratch.logits.rows(0, rows);
    multiply(run, x.rows(n, rows), z, scratch);
    kernels::cross_entropy_forward_backward(run, z, targets.rows(n, rows), scale,
                                            scratch.losses.rows(0, rows));
    total += sum(targets.rows(n, rows), scratch);
    multiply_backward(run, z, x.rows(n, rows), dx.rows(n, rows), scratch);
  }
  return total;
}

void CrossEntropyHead::pack(const Runtime& run, kernels::WeightFormat format) {
  packed_ = kernels::PackedMatrix(run, kernels::Right::transposed(weight_.matrix()), format);
}

}  // namespace prenorm
