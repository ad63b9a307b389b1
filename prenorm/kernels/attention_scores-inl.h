// One query row's scores against a block of keys: which keys it sees, scaled and masked, and in
// double where a float holds too few digits. Forward and backward go through the same functions, so
// that they see the same probabilities. Per-target include.
#if defined(PRENORM_KERNELS_ATTENTION_SCORES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PRENORM_KERNELS_ATTENTION_SCORES_INL_H
#undef PRENORM_KERNELS_ATTENTION_SCORES_INL_H
#else
#define PRENORM_KERNELS_ATTENTION_SCORES_INL_H
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "prenorm/kernels/attention-inl.h"

HWY_BEFORE_NAMESPACE();
namespace prenorm::kernels::HWY_NAMESPACE {
#if PRENORM_FMA_TARGET

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// Beyond this size a float score is off by more than 1e-6, and so is its probability, relatively:
// such a row's scores against such a block are computed in double.
constexpr float kLargeScore = 16.0f;

// The keys of the block from `k0` that a query sees: by the causal rule and the count of keys, the
// first `count` of them; of these, the ones that the mask leaves.
HWY_INLINE Index visible(bool causal, Index position, Index k0, Index keys) {
  const Index end = causal ? std::min(keys, position + 1) : keys;
  return std::clamp<Index>(end - k0, 0, kKeyBlock);
}
inline std::uint64_t unmasked(const HeadMask& mask, Index query, Index k0, Index count) {
  std::uint64_t bits = first_bits(count);
  const float* added = mask.added_at(query, k0);
  for (Index j = 0; j < count; ++j) {
    const bool blocked =
        (added != nullptr && added[j] == -std::numeric_limits<float>::infinity()) ||
        (mask.key_blocked != nullptr && mask.key_blocked[k0 + j] != 0);
    if (blocked) bits &= ~(std::uint64_t{1} << j);
  }
  return bits;
}

// What the rows t0, t0 + 1, … of a tile see of the block of keys from k0.
struct SeenKeys {
  Index count[kTileRows];  // the keys up to the last that the causal rule lets through
  Seen seen;               // of these, the ones that the mask leaves

  // Of AttentionRows or AttentionHead.
  template <int Rows, typename Problem>
  static HWY_INLINE SeenKeys of(const Problem& p, Index t0, Index k0) {
    SeenKeys s;
    for (int i = 0; i < Rows; ++i) {
      s.count[i] = visible(p.causal, p.past + t0 + i, k0, p.keys);
      s.seen.row[i] = p.mask ? unmasked(p.mask, t0 + i, k0, s.count[i]) : first_bits(s.count[i]);
    }
    return s;
  }
};

// One query row and what it needs to know of a block of keys.
struct ScoreRow {
  const float* q;      // [D]
  const float* panel;  // [D][64]: the block's keys
  Index query, k0, count;
  std::uint64_t seen;
};

// What scale_row() found.
struct RowRange {
  float top;       // the largest score
  bool in_double;  // the scores are in `exact`, not in `s`
};

// q · k in double, one chain in ascending d, times the scale, and the mask.
template <typename Problem>
HWY_INLINE float exact_scores(const Problem& p, const ScoreRow& row, double* exact) {
  const DD d;
  const D16 scale = set_d(p.scale);
  for (Index j = 0; j < row.count; j += 2 * kLanes) {
    D16 low = set_d(0.0), high = set_d(0.0);
    for (Index c = 0; c < p.head_width; ++c) {
      const D16 q = set_d(row.q[c]);
      low = fma(q, load_d(row.panel + c * kKeyBlock + j), low);
      high = fma(q, load_d(row.panel + c * kKeyBlock + j + kLanes), high);
    }
    low = mul(low, scale);
    high = mul(high, scale);
    PRENORM_EACH_D(i) {
      hn::StoreU(low.v[i], d, exact + j + i * kDoubleLanes);
      hn::StoreU(high.v[i], d, exact + j + kLanes + i * kDoubleLanes);
    }
  }
  const float* added = p.mask.added_at(row.query, row.k0);
  double top = -std::numeric_limits<double>::infinity();
  for (Index j = 0; j < round_up(row.count, kLanes); ++j) {
    if (j >= row.count || (row.seen >> j & 1) == 0) {
      exact[j] = -std::numeric_limits<double>::infinity();
    } else if (added != nullptr) {
      exact[j] += static_cast<double>(added[j]);
    }
    top = exact[j] > top ? exact[j] : top;
  }
  return static_cast<float>(top);
}

// Adds the mask's numbers to the scaled scores and sets what it blocks to −∞.
template <typename Problem>
HWY_INLINE void scale_masked(const Problem& p, const ScoreRow& row, float* s) {
  const float scale = static_cast<float>(p.scale);
  const float* added = p.mask.added_at(row.query, row.k0);
  for (Index j = 0; j < row.count; ++j) {
    if ((row.seen >> j & 1) == 0) {
      s[j] = kMinusInfinity;
    } else {
      s[j] = added == nullptr ? s[j] * scale : std::fma(s[j], scale, added[j]);
    }
  }
}

// The products s of a row with the block's keys become scores: scaled, masked, −∞ past the row's
// count to a whole group of lanes. Large ones are computed again in double, into `exact` [64].
template <typename Problem>
HWY_INLINE RowRange scale_row(const Problem& p, const ScoreRow& row, float* s, double* exact) {
  if (p.mask) scale_masked(p, row, s);
  const F16 factor = set_f(p.mask ? 1.0f : static_cast<float>(p.scale));
  F16 top = set_f(kMinusInfinity), size = set_f(0.0f);
  for (Index j = 0; j < row.count; j += kLanes) {
    F16 x = mul(load_f(s + j), factor);
    if (row.count - j < kLanes) x = keep_first(x, row.count - j, kMinusInfinity);
    store_f(x, s + j);
    top = max(x, top);
    size = max(size_of_finite(x), size);
  }
  const float largest = max_lanes(size);
  if (largest > kLargeScore) return {exact_scores(p, row, exact), true};
  return {max_lanes(top), false};
}

// Whether a score of the tile's products s, [Rows, 64], may be large or infinite. Keys that a row
// does not see may say so too.
template <int Rows, typename Problem>
HWY_INLINE bool has_large_score(const Problem& p, const SeenKeys& keys, const float* s) {
  F16 most = set_f(0.0f);
#pragma GCC unroll 8
  for (int i = 0; i < Rows; ++i) {
    for (Index j = 0; j < keys.count[Rows - 1]; j += kLanes) {
      most = max(abs(load_f(s + i * kKeyBlock + j)), most);
    }
  }
  return any_above(mul(most, set_f(static_cast<float>(std::abs(p.scale)))), kLargeScore);
}

// s ← exp(score − shift); returns the sum, in double: rows that are alike are off alike, and what
// is summed over them would be off by as much as they are many. Groups of lanes that the row does
// not see would add zeros.
HWY_INLINE double exponentials(bool in_double, const double* exact, float shift, Index count,
                               float* s) {
  if (in_double) {
    for (Index j = 0; j < round_up(count, kLanes); ++j) {
      s[j] = static_cast<float>(exact[j] - static_cast<double>(shift));
    }
  }
  const F16 by = set_f(in_double ? 0.0f : shift);
  D16 sum = set_d(0.0);
  for (Index j = 0; j < count; j += kLanes) {
    const F16 p = exp_nonpositive(sub(load_f(s + j), by));
    store_f(p, s + j);
    sum = add(sum, load_d(s + j));
  }
  return sum_lanes(sum);
}

#endif  // PRENORM_FMA_TARGET
}  // namespace prenorm::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per-target guard
