// What the benchmarks of kernels and layers share: operands, and the best of several calls.
#pragma once
#include <algorithm>
#include <limits>
#include <span>

#include "prenorm/base/stopwatch.h"
#include "prenorm/tensor/buffer.h"
#include "prenorm/tensor/view.h"

namespace prenorm::kernels {

// A matrix of small numbers of both signs, in memory of its own.
struct BenchmarkMatrix {
  Buffer memory;
  Matrix view;

  BenchmarkMatrix(Index rows, Index columns)
      : memory(static_cast<std::size_t>(rows * columns) * sizeof(float)),
        view(memory.floats().data(), {rows, columns}) {
    for (Index i = 0; i < rows * columns; ++i) {
      view.data()[i] = static_cast<float>(i * 7919 % 1009 - 504) / 504.0f;
    }
  }
  std::span<float> flat() const {
    return memory.floats().first(static_cast<std::size_t>(view.dim(0) * view.dim(1)));
  }
};

// Seconds of the fastest call, of as many as fit into `seconds` after one that is not counted, and
// of at least three.
template <typename Call>
double best_of(double seconds, const Call& call) {
  double best = std::numeric_limits<double>::infinity();
  call();
  int calls = 0;
  for (const auto begin = Clock::now(); seconds_since(begin) < seconds || calls < 3; ++calls) {
    const auto start = Clock::now();
    call();
    best = std::min(best, seconds_since(start));
  }
  return best;
}

}  // namespace prenorm::kernels
