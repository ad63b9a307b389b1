// What this machine can do at most, measured: the yardsticks that speeds are given against.
#pragma once
#include <cstddef>

#include "prenorm/kernels/runtime.h"

namespace prenorm::kernels {

// Fused multiply-adds on registers, all threads of the runtime together, float32: GFLOP/s, the
// best of several rounds over about `seconds`.
double measure_fma_peak(const Runtime& run, double seconds = 0.2);

// Reading memory once from end to end on huge pages, all threads together: GB/s, the best of
// several passes. Allocates `bytes`, which should be well over the last-level cache.
double measure_read_bandwidth(const Runtime& run, std::size_t bytes = std::size_t{1} << 30);

// From the call of a parallel loop to its return where each thread does one piece, and that piece
// is to wait until all have come: microseconds, the median of many in a row. 0 with one thread.
double measure_hand_over(const Runtime& run);

}  // namespace prenorm::kernels
