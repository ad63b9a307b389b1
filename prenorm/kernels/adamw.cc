// AdamW in one pass over value, gradient and moments, and the sum of squares for the gradient norm.
// The factors of a step are computed once in double and rounded to float; elements are float.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "prenorm/kernels/adamw.cc"
#include "prenorm/kernels/targets.h"

// After targets.h: these are read once for each target.
#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdint>

#include "prenorm/base/portable_math.h"
#include "prenorm/kernels/adamw.h"
#include "prenorm/kernels/simd-inl.h"

#ifndef PRENORM_ADAMW_ONCE
#define PRENORM_ADAMW_ONCE
namespace prenorm::kernels {
namespace {

// The step's factors, as the elements use them.
struct AdamWFactors {
  float clip = 1;
  float decay = 1;       // 1 − lr λ
  float blend1 = 0;      // 1 − β1
  float beta2 = 0;       // β2
  float blend2 = 0;      // 1 − β2
  float root_scale = 1;  // 1 / sqrt(1 − β2^t)
  float eps = 0;         // ε
  float rate = 0;        // lr / (1 − β1^t)
};

struct AdamWTable {
  void (*update)(const AdamWFactors& f, Index count, float* value, float* grad, float* first_moment,
                 float* second_moment);
  double (*sum_of_squares)(const float* x, Index count);
};

}  // namespace
}  // namespace prenorm::kernels
#endif  // PRENORM_ADAMW_ONCE

HWY_BEFORE_NAMESPACE();
namespace prenorm::kernels::HWY_NAMESPACE {
#if PRENORM_FMA_TARGET
namespace {

// One vector of elements. value, m and v are updated in place.
HWY_INLINE void update_vector(const AdamWFactors& f, const VF& grad, VF& value, VF& m, VF& v) {
  const DF d;
  const VF g = hn::Mul(grad, hn::Set(d, f.clip));
  m = hn::MulAdd(hn::Set(d, f.blend1), hn::Sub(g, m), m);
  v = hn::MulAdd(hn::Mul(hn::Set(d, f.blend2), g), g, hn::Mul(hn::Set(d, f.beta2), v));
  const VF root = hn::MulAdd(hn::Sqrt(v), hn::Set(d, f.root_scale), hn::Set(d, f.eps));
  const VF decayed = hn::Mul(value, hn::Set(d, f.decay));
  value = hn::NegMulAdd(hn::Set(d, f.rate), hn::Div(m, root), decayed);
}

void update(const AdamWFactors& f, Index count, float* value, float* grad, float* first_moment,
            float* second_moment) {
  const DF d;
  Index i = 0;
  for (; i + kFloatLanes <= count; i += kFloatLanes) {
    VF p = hn::LoadU(d, value + i), m = hn::LoadU(d, first_moment + i);
    VF v = hn::LoadU(d, second_moment + i);
    update_vector(f, hn::LoadU(d, grad + i), p, m, v);
    hn::StoreU(p, d, value + i);
    hn::StoreU(m, d, first_moment + i);
    hn::StoreU(v, d, second_moment + i);
    hn::StoreU(hn::Zero(d), d, grad + i);
  }
  if (i == count) return;
  HWY_ALIGN float t[4][kFloatLanes] = {};
  float* const arrays[4] = {value + i, grad + i, first_moment + i, second_moment + i};
  for (int a = 0; a < 4; ++a) std::copy(arrays[a], arrays[a] + (count - i), t[a]);
  VF p = hn::Load(d, t[0]), m = hn::Load(d, t[2]), v = hn::Load(d, t[3]);
  update_vector(f, hn::Load(d, t[1]), p, m, v);
  hn::Store(p, d, t[0]);
  hn::Store(hn::Zero(d), d, t[1]);
  hn::Store(m, d, t[2]);
  hn::Store(v, d, t[3]);
  for (int a = 0; a < 4; ++a) std::copy(t[a], t[a] + (count - i), arrays[a]);
}

double squares(const float* x, Index count) {
  D16 sum = set_d(0.0);
  Index i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const D16 v = load_d(x + i);
    sum = fma(v, v, sum);
  }
  if (i < count) {
    const D16 v = load_d_part(x + i, count - i, 0.0f);
    sum = fma(v, v, sum);
  }
  return sum_lanes(sum);
}

constexpr AdamWTable kAdamW = {update, squares};

}  // namespace
#endif  // PRENORM_FMA_TARGET
}  // namespace prenorm::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace prenorm::kernels {
namespace {

PRENORM_TARGET_TABLE(AdamWTable, adamw_table, kAdamW)

AdamWFactors factors(const AdamWStep& s, bool decays) {
  const auto t = static_cast<std::uint64_t>(s.step);
  const double correction1 = 1.0 - pow_int(s.beta1, t);
  const double correction2 = 1.0 - pow_int(s.beta2, t);
  return {.clip = static_cast<float>(s.grad_scale),
          .decay = decays ? static_cast<float>(1.0 - s.learning_rate * s.weight_decay) : 1.0f,
          .blend1 = static_cast<float>(1.0 - s.beta1),
          .beta2 = static_cast<float>(s.beta2),
          .blend2 = static_cast<float>(1.0 - s.beta2),
          .root_scale = static_cast<float>(1.0 / std::sqrt(correction2)),
          .eps = static_cast<float>(s.eps),
          .rate = static_cast<float>(s.learning_rate / correction1)};
}

}  // namespace

void adamw(const Runtime& run, const AdamWStep& step, std::span<const AdamWStretch> stretches) {
  const AdamWFactors decaying = factors(step, true), others = factors(step, false);
  const AdamWTable& table = adamw_table(run.isa());
  run.pool().run(static_cast<Index>(stretches.size()), [&](Index i, int) {
    const AdamWStretch& s = stretches[static_cast<std::size_t>(i)];
    assert(s.grad.size() == s.value.size() && s.first_moment.size() == s.value.size() &&
           s.second_moment.size() == s.value.size());
    table.update(s.decays ? decaying : others, static_cast<Index>(s.value.size()), s.value.data(),
                 s.grad.data(), s.first_moment.data(), s.second_moment.data());
  });
}

void adamw(const Runtime& run, const AdamWStep& step, const AdamWStretch& parameter) {
  const AdamWFactors f = factors(step, parameter.decays);
  const AdamWTable& table = adamw_table(run.isa());
  const auto count = static_cast<Index>(parameter.value.size());
  run.pool().run(ceil_div(count, kAdamWStretch), [&](Index piece, int) {
    const Index begin = piece * kAdamWStretch;
    table.update(f, std::min(kAdamWStretch, count - begin), parameter.value.data() + begin,
                 parameter.grad.data() + begin, parameter.first_moment.data() + begin,
                 parameter.second_moment.data() + begin);
  });
}

void squares_of_chunks(const Runtime& run, std::span<const std::span<const float>> chunks,
                       std::span<double> sums) {
  assert(sums.size() == chunks.size());
  const AdamWTable& table = adamw_table(run.isa());
  run.pool().run(static_cast<Index>(chunks.size()), [&](Index i, int) {
    const auto n = static_cast<std::size_t>(i);
    sums[n] = table.sum_of_squares(chunks[n].data(), static_cast<Index>(chunks[n].size()));
  });
}

double sum_of_squares(const Runtime& run, std::span<const float> x) {
  const auto chunks =
      static_cast<std::size_t>(ceil_div(static_cast<Index>(x.size()), kSquaresChunk));
  const std::span<double> sums(
      reinterpret_cast<double*>(run.shared_scratch(chunks * sizeof(double) / sizeof(float))),
      chunks);
  const AdamWTable& table = adamw_table(run.isa());
  run.pool().run(static_cast<Index>(chunks), [&](Index chunk, int) {
    const Index begin = chunk * kSquaresChunk, left = static_cast<Index>(x.size()) - begin;
    sums[static_cast<std::size_t>(chunk)] =
        table.sum_of_squares(x.data() + begin, std::min(kSquaresChunk, left));
  });
  double total = 0.0;
  for (const double sum : sums) total += sum;
  return total;
}

}  // namespace prenorm::kernels
#endif  // HWY_ONCE
