#include "prenorm/kernels/matmul_benchmark.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "prenorm/kernels/matmul.h"

namespace prenorm::kernels {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

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

// A matrix of small numbers of both signs, in its own memory.
struct Operand {
  Buffer memory;
  Matrix view;

  Operand(Index rows, Index columns)
      : memory(static_cast<std::size_t>(rows * columns) * sizeof(float)),
        view(memory.floats().data(), {rows, columns}) {
    for (Index i = 0; i < rows * columns; ++i) {
      memory.floats()[static_cast<std::size_t>(i)] =
          static_cast<float>(i * 7919 % 1009 - 504) / 504;
    }
  }
};

}  // namespace

MatmulTimes time_matmul(const Runtime& run, Index m, Index k, Index n, double seconds) {
  const Operand x(m, k), weight(k, n), y(m, n), dx(m, k), dweight(k, n), bias(1, n);
  Epilogue with_bias;
  with_bias.bias = bias.view[0];
  MatmulTimes times;
  times.flops = 2.0 * static_cast<double>(m) * static_cast<double>(k) * static_cast<double>(n);
  times.forward =
      best_of(seconds, [&] { matmul(run, x.view, Right::plain(weight.view), y.view, with_bias); });
  times.dx =
      best_of(seconds, [&] { matmul(run, y.view, Right::transposed(weight.view), dx.view, {}); });
  times.dweight =
      best_of(seconds, [&] { matmul_transposed_accumulate(run, x.view, y.view, dweight.view); });
  return times;
}

}  // namespace prenorm::kernels
