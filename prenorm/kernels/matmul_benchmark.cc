#include "prenorm/kernels/matmul_benchmark.h"

#include "prenorm/kernels/benchmarking.h"
#include "prenorm/kernels/matmul.h"

namespace prenorm::kernels {
MatmulTimes time_matmul(const Runtime& run, Index m, Index k, Index n, double seconds) {
  const BenchmarkMatrix x(m, k), weight(k, n), y(m, n), dx(m, k), dweight(k, n), bias(1, n);
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
