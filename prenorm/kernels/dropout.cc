// Dropout: the mask is computed where it is used, from the random words of a run of elements.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "prenorm/kernels/dropout.cc"
#include "prenorm/kernels/targets.h"

// After targets.h: these are read once for each target.
#include <algorithm>
#include <cassert>

#include "prenorm/kernels/dropout.h"
#include "prenorm/kernels/each_row.h"
#include "prenorm/kernels/philox-inl.h"
#include "prenorm/kernels/profile.h"
#include "prenorm/kernels/simd-inl.h"

#ifndef PRENORM_DROPOUT_ONCE
#define PRENORM_DROPOUT_ONCE
namespace prenorm::kernels {
namespace {

// What every row needs to know.
struct DropoutMask {
  PhiloxKey key{};
  std::uint32_t threshold = 0;
  float scale = 1;
};

struct DropoutTable {
  // One row of `width` elements, the first of them `element` of the stream; residual may be null.
  void (*row)(const DropoutMask& mask, std::uint64_t element, Index width, const float* x,
              const float* residual, float* y);
};

}  // namespace
}  // namespace prenorm::kernels
#endif  // PRENORM_DROPOUT_ONCE

HWY_BEFORE_NAMESPACE();
namespace prenorm::kernels::HWY_NAMESPACE {
#if PRENORM_FMA_TARGET
namespace {

using DFU = hn::RebindToUnsigned<DF>;

constexpr Index kRun = 256;  // elements whose words are made at once

// The elements whose word is below the threshold.
HWY_INLINE hn::Mask<DF> dropped(const std::uint32_t* words, std::uint32_t threshold) {
  const DFU du;
  const DI di;
  // Signed comparison after moving both by half the range.
  const auto sign = hn::Set(du, 0x80000000u);
  const auto word = hn::BitCast(di, hn::Xor(hn::LoadU(du, words), sign));
  const auto limit = hn::BitCast(di, hn::Set(du, threshold ^ 0x80000000u));
  return hn::MaskFromVec(hn::BitCast(DF(), hn::VecFromMask(di, hn::Lt(word, limit))));
}

// A dropped element leaves the residual as it is, to the bit, whatever x holds there.
template <bool kResidual>
void row(const DropoutMask& mask, std::uint64_t element, Index width, const float* x,
         const float* residual, float* y) {
  const VF scale = hn::Set(DF(), mask.scale);
  HWY_ALIGN std::uint32_t words[kRun + 4 * (kPhiloxSlack + 1) + kFloatLanes];
  for (Index begin = 0; begin < width; begin += kRun) {
    const Index count = std::min(kRun, width - begin);
    const std::uint64_t at = element + static_cast<std::uint64_t>(begin);
    const auto offset = static_cast<Index>(at & 3);
    philox_words(mask.key, at >> 2, ceil_div(offset + count, 4), words);
    const auto value = [&](const VF& v, const VF& base, Index i) HWY_ATTR {
      const auto drop = dropped(words + offset + i, mask.threshold);
      const VF scaled = hn::Mul(v, scale);
      if constexpr (kResidual) return hn::IfThenElse(drop, base, hn::Add(base, scaled));
      return hn::IfThenZeroElse(drop, scaled);
    };
    const float* from = x + begin;
    const float* base = kResidual ? residual + begin : from;
    float* to = y + begin;
    Index i = 0;
    for (; i + kFloatLanes <= count; i += kFloatLanes) {
      hn::StoreU(value(hn::LoadU(DF(), from + i), hn::LoadU(DF(), base + i), i), DF(), to + i);
    }
    if (i < count) {
      HWY_ALIGN float t[kFloatLanes] = {}, b[kFloatLanes] = {};
      std::copy(from + i, from + count, t);
      std::copy(base + i, base + count, b);
      hn::Store(value(hn::Load(DF(), t), hn::Load(DF(), b), i), DF(), t);
      std::copy(t, t + (count - i), to + i);
    }
  }
}

void any_row(const DropoutMask& mask, std::uint64_t element, Index width, const float* x,
             const float* residual, float* y) {
  (residual == nullptr ? row<false> : row<true>)(mask, element, width, x, residual, y);
}

constexpr DropoutTable kDropout = {any_row};

}  // namespace
#endif  // PRENORM_FMA_TARGET
}  // namespace prenorm::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace prenorm::kernels {
namespace {

PRENORM_TARGET_TABLE(DropoutTable, dropout_table, kDropout)

}  // namespace

void dropout(const Runtime& run, const Dropout& drop, ConstMatrix x, ConstMatrix residual,
             Matrix y) {
  const ProfileScope scope(run, Part::kOther, 0.0, 0.0);
  assert(drop.p >= 0.0 && drop.p < 1.0);
  const Index rows = x.dim(0), width = x.dim(1);
  if (rows == 0 || width == 0) return;
  const DropoutMask mask{drop.stream.key(), drop.threshold(), drop.scale()};
  const DropoutTable& table = dropout_table(run.isa());
  each_row(run, rows, width, [&](Index n) {
    table.row(mask, static_cast<std::uint64_t>(drop.first_element + n * width), width, x[n].data(),
              residual ? residual[n].data() : nullptr, y[n].data());
  });
}

}  // namespace prenorm::kernels
#endif  // HWY_ONCE
