#include "prenorm/kernels/limits.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "prenorm/base/stopwatch.h"

#ifndef PRENORM_KERNELS_LIMITS_TARGET  // this file is read once for each target
#define PRENORM_KERNELS_LIMITS_TARGET
namespace prenorm::kernels {

struct LimitsTarget {
  float (*fma_chains)(Index rounds, const float* factors);
  float (*read_floats)(const float* from, Index count);
  double flops_per_round;
};

}  // namespace prenorm::kernels
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "prenorm/kernels/limits.cc"
#include "prenorm/kernels/targets.h"
// The per-target parts come after the target has been chosen.
#include "prenorm/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace prenorm::kernels::HWY_NAMESPACE {
#if PRENORM_FMA_TARGET
namespace {

constexpr int kChains = 12;  // enough to cover the latency of a multiply-add on any of the targets

// `rounds` multiply-adds on each of the chains. The factors come from memory, so that nothing is
// known when compiling; the sum keeps the chains alive.
float fma_chains(Index rounds, const float* factors) {
  const DF d;
  VF chain[kChains];
  for (VF& v : chain) v = hn::Set(d, 1.0f);
  const VF x = hn::Set(d, factors[0]), y = hn::Set(d, factors[1]);
  for (Index i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
    for (int c = 0; c < kChains; ++c) chain[c] = hn::MulAdd(chain[c], x, y);
  }
  VF sum = chain[0];
  for (int c = 1; c < kChains; ++c) sum = hn::Add(sum, chain[c]);
  return hn::GetLane(sum);
}

float read_floats(const float* from, Index count) {
  F16 sum[4] = {set_f(0.0f), set_f(0.0f), set_f(0.0f), set_f(0.0f)};
  for (Index i = 0; i + 4 * kLanes <= count; i += 4 * kLanes) {
    for (int j = 0; j < 4; ++j) sum[j] = add(sum[j], load_f(from + i + j * kLanes));
  }
  return sum_lanes(add(add(sum[0], sum[1]), add(sum[2], sum[3])));
}

}  // namespace

const LimitsTarget kLimitsTarget = {fma_chains, read_floats, 2.0 * kChains* kFloatLanes};

#endif  // PRENORM_FMA_TARGET
}  // namespace prenorm::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace prenorm::kernels {
namespace {

PRENORM_TARGET_TABLE(LimitsTarget, limits_target, kLimitsTarget)

// What the compiler must believe to be read: the results of the measured loops.
volatile float result_sink;

}  // namespace

double measure_fma_peak(const Runtime& run, double seconds) {
  const LimitsTarget& target = limits_target(run.isa());
  constexpr Index kRounds = 20000;
  const float factors[2] = {0.999999f, 1e-6f};
  const Index pieces = Index{run.threads()} * 8;
  std::vector<float> sums(static_cast<std::size_t>(pieces));
  double best = 0.0;
  for (const Clock::time_point begin = Clock::now(); seconds_since(begin) < seconds;) {
    const Clock::time_point start = Clock::now();
    run.pool().run(pieces, [&](Index piece, int) {
      sums[static_cast<std::size_t>(piece)] = target.fma_chains(kRounds, factors);
    });
    const double flops = static_cast<double>(pieces * kRounds) * target.flops_per_round;
    best = std::max(best, flops / seconds_since(start) / 1e9);
    result_sink = sums[0];
  }
  return best;
}

double measure_read_bandwidth(const Runtime& run, std::size_t bytes) {
  const LimitsTarget& target = limits_target(run.isa());
  constexpr std::size_t kPiece = std::size_t{1} << 18;  // floats: 1 MiB
  const Buffer memory(bytes);
  const std::span<float> floats = memory.floats();
  std::ranges::fill(floats, 1.0f);
  const auto pieces = static_cast<Index>(floats.size() / kPiece);
  std::vector<float> sums(static_cast<std::size_t>(pieces));
  double best = 0.0;
  for (int pass = 0; pass < 5; ++pass) {
    const Clock::time_point start = Clock::now();
    run.pool().run(pieces, [&](Index piece, int) {
      const auto at = static_cast<std::size_t>(piece);
      sums[at] = target.read_floats(floats.data() + at * kPiece, kPiece);
    });
    best = std::max(
        best, static_cast<double>(pieces) * kPiece * sizeof(float) / seconds_since(start) / 1e9);
    for (float sum : sums) result_sink = sum;
  }
  return best;
}

double measure_hand_over(const Runtime& run) {
  if (run.threads() == 1) return 0.0;
  constexpr std::size_t kLoops = 2001;
  std::vector<double> seconds(kLoops);
  for (double& loop : seconds) {
    std::atomic<int> missing = run.threads();
    const Clock::time_point start = Clock::now();
    run.pool().run(run.threads(), [&missing](Index, int) {
      --missing;
      for (int spins = 1; missing > 0; ++spins) {
        // A thread that is not running may be waiting for this core.
        if (spins % 4096 == 0) std::this_thread::yield();
      }
    });
    loop = seconds_since(start);
  }
  const auto middle = seconds.begin() + kLoops / 2;
  std::ranges::nth_element(seconds, middle);
  return *middle * 1e6;
}

}  // namespace prenorm::kernels
#endif
