#include "prenorm/kernels/attention_benchmark.h"

#include <algorithm>

#include "prenorm/kernels/benchmarking.h"

namespace prenorm::kernels {

AttentionTimes time_attention(const AttentionShape& shape, const Runtime& run, double seconds) {
  const Index rows = shape.batch * shape.time, width = shape.width();
  const Index softmax_rows = rows * shape.heads;
  const BenchmarkMatrix qkv(rows, 3 * width), out(rows, width), dout(rows, width),
      dqkv(rows, 3 * width), row_max(1, softmax_rows);
  const Buffer sums(static_cast<std::size_t>(softmax_rows) * sizeof(double));
  const DoubleVector row_sum(reinterpret_cast<double*>(sums.data()), {softmax_rows});
  const AttentionInputs inputs = split_qkv(ConstMatrix(qkv.view));
  const AttentionGradients gradients = split_qkv(dqkv.view);
  AttentionTimes times;
  const double products = static_cast<double>(rows) * static_cast<double>(shape.time * width);
  times.forward_flops = 2.0 * products;
  times.backward_flops = 5.0 * products;
  times.forward = best_of(seconds * 2 / 7, [&] {
    attention_forward(run, shape, inputs, {}, out.view, row_max.view[0], row_sum, {});
  });
  times.backward = best_of(seconds * 5 / 7, [&] {
    attention_backward(run, shape, dout.view, inputs, {}, out.view, row_max.view[0], row_sum,
                       gradients, {});
  });
  times.scratch_bytes = run.scratch_bytes();
  return times;
}

}  // namespace prenorm::kernels
