#include "prenorm/kernels/activation.h"

#include <algorithm>
#include <array>
#include <cassert>

#include "prenorm/kernels/each_row.h"
#include "prenorm/kernels/profile.h"

#ifndef PRENORM_KERNELS_ACTIVATION_TARGET  // this file is read once for each target
#define PRENORM_KERNELS_ACTIVATION_TARGET
namespace prenorm::kernels {

struct ActivationTarget {
  void (*forward)(Activation act, const float* x, Index count, float* y);
  void (*backward)(Activation act, const float* dy, const float* x, Index count, float* dx);
};

}  // namespace prenorm::kernels
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "prenorm/kernels/activation.cc"
#include "prenorm/kernels/targets.h"
// The per-target parts come after the target has been chosen.
#include "prenorm/kernels/activation-inl.h"

HWY_BEFORE_NAMESPACE();
namespace prenorm::kernels::HWY_NAMESPACE {
#if PRENORM_FMA_TARGET
namespace {

// The last elements of a row, in a vector whose other lanes are zero.
HWY_INLINE VF load_rest(const float* x, Index count) {
  alignas(64) float rest[kFloatLanes] = {};
  std::copy_n(x, count, rest);
  return hn::Load(DF(), rest);
}
HWY_INLINE void store_rest(VF y, Index count, float* to) {
  alignas(64) float rest[kFloatLanes];
  hn::Store(y, DF(), rest);
  std::copy_n(rest, count, to);
}

template <Activation act>
void forward_row(const float* x, Index count, float* y) {
  const DF d;
  Index i = 0;
  for (; i + kFloatLanes <= count; i += kFloatLanes) {
    hn::StoreU(activate<act>(hn::LoadU(d, x + i)), d, y + i);
  }
  if (i < count) store_rest(activate<act>(load_rest(x + i, count - i)), count - i, y + i);
}

template <Activation act>
void backward_row(const float* dy, const float* x, Index count, float* dx) {
  const DF d;
  Index i = 0;
  for (; i + kFloatLanes <= count; i += kFloatLanes) {
    const VF slope = activate_grad<act>(hn::LoadU(d, x + i));
    hn::StoreU(hn::Mul(hn::LoadU(d, dy + i), slope), d, dx + i);
  }
  if (i < count) {
    const VF slope = activate_grad<act>(load_rest(x + i, count - i));
    store_rest(hn::Mul(load_rest(dy + i, count - i), slope), count - i, dx + i);
  }
}

void forward(Activation act, const float* x, Index count, float* y) {
  switch (act) {
    case Activation::kRelu:
      return forward_row<Activation::kRelu>(x, count, y);
    case Activation::kGelu:
      return forward_row<Activation::kGelu>(x, count, y);
    case Activation::kGeluTanh:
      return forward_row<Activation::kGeluTanh>(x, count, y);
  }
}

void backward(Activation act, const float* dy, const float* x, Index count, float* dx) {
  switch (act) {
    case Activation::kRelu:
      return backward_row<Activation::kRelu>(dy, x, count, dx);
    case Activation::kGelu:
      return backward_row<Activation::kGelu>(dy, x, count, dx);
    case Activation::kGeluTanh:
      return backward_row<Activation::kGeluTanh>(dy, x, count, dx);
  }
}

}  // namespace

const ActivationTarget kActivationTarget = {forward, backward};

#endif  // PRENORM_FMA_TARGET
}  // namespace prenorm::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace prenorm {
namespace {

constexpr std::array<std::string_view, 3> kNames = {"relu", "gelu", "gelu-tanh"};

}  // namespace

std::span<const std::string_view> activation_names() { return kNames; }

std::string_view activation_name(Activation activation) {
  return kNames[static_cast<std::size_t>(activation)];
}

std::optional<Activation> activation_from_name(std::string_view name) {
  if (name == "gelu_new" || name == "gelu_pytorch_tanh") return Activation::kGeluTanh;
  const auto it = std::ranges::find(kNames, name);
  if (it == kNames.end()) return std::nullopt;
  return static_cast<Activation>(it - kNames.begin());
}

namespace kernels {
namespace {

PRENORM_TARGET_TABLE(ActivationTarget, activation_target, kActivationTarget)

constexpr Index kActivationPiece = 4096;  // elements: each takes dozens of instructions

}  // namespace

void activation_forward(const Runtime& run, Activation act, ConstMatrix x, Matrix y) {
  assert(x.shape() == y.shape());
  const ProfileScope scope(run, Part::kActivation, 0.0,
                           8.0 * static_cast<double>(x.dim(0) * x.dim(1)));
  const ActivationTarget& target = activation_target(run.isa());
  each_row(
      run, x.dim(0), x.dim(1),
      [&](Index n) { target.forward(act, x[n].data(), x.dim(1), y[n].data()); }, kActivationPiece);
}

void activation_backward(const Runtime& run, Activation act, ConstMatrix dy, ConstMatrix x,
                         Matrix dx) {
  assert(x.shape() == dy.shape() && x.shape() == dx.shape());
  const ProfileScope scope(run, Part::kActivation, 0.0,
                           12.0 * static_cast<double>(x.dim(0) * x.dim(1)));
  const ActivationTarget& target = activation_target(run.isa());
  each_row(
      run, x.dim(0), x.dim(1),
      [&](Index n) { target.backward(act, dy[n].data(), x[n].data(), x.dim(1), dx[n].data()); },
      kActivationPiece);
}

}  // namespace kernels
}  // namespace prenorm
#endif
