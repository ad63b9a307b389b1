// The kernels one by one under Google Benchmark, to try a change on: all of its flags, its
// repetitions and its compare.py work. What counts in the end are whole steps (`prenorm bench
// train`).
//
//   build/release/prenorm_kernels --benchmark_filter='matmul.*768' --benchmark_repetitions=5
//
// Each is run on one thread with the best instruction set; PRENORM_BENCH_ISA names another.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "prenorm/kernels/activation.h"
#include "prenorm/kernels/adamw.h"
#include "prenorm/kernels/attention.h"
#include "prenorm/kernels/benchmarking.h"
#include "prenorm/kernels/cross_entropy.h"
#include "prenorm/kernels/layer_norm.h"
#include "prenorm/kernels/matmul.h"

namespace prenorm {
namespace {

using kernels::BenchmarkMatrix;

const Runtime& runtime() {
  static const char* const isa = std::getenv("PRENORM_BENCH_ISA");
  static const Runtime run({.threads = 1, .isa = isa == nullptr ? "auto" : isa});
  return run;
}

void per_second(benchmark::State& state, const char* name, double count) {
  state.counters[name] = benchmark::Counter(count, benchmark::Counter::kIsIterationInvariantRate);
}

enum class Product { kForward, kInputGradient, kWeightGradient };

void matmul(benchmark::State& state, Product product) {
  const Index m = state.range(0), k = state.range(1), n = state.range(2);
  const BenchmarkMatrix x(m, k), weight(k, n), y(m, n), dx(m, k), dweight(k, n);
  for (auto _ : state) {
    if (product == Product::kForward) {
      kernels::matmul(runtime(), x.view, kernels::Right::plain(weight.view), y.view, {});
    } else if (product == Product::kInputGradient) {
      kernels::matmul(runtime(), y.view, kernels::Right::transposed(weight.view), dx.view, {});
    } else {
      kernels::matmul_transposed_accumulate(runtime(), x.view, y.view, dweight.view);
    }
  }
  per_second(state, "FLOP/s", 2.0 * static_cast<double>(m * k * n));
}

void products(benchmark::internal::Benchmark* b) {
  b->ArgNames({"m", "k", "n"});
  for (const auto& [k, n] : {std::pair{768, 3072}, {3072, 768}, {384, 1536}, {128, 512}}) {
    for (const int m : {1, 8, 256, 1024}) b->Args({m, k, n});
  }
}

BENCHMARK_CAPTURE(matmul, forward, Product::kForward)->Apply(products);
BENCHMARK_CAPTURE(matmul, dx, Product::kInputGradient)->Apply(products);
BENCHMARK_CAPTURE(matmul, dweight, Product::kWeightGradient)->Apply(products);

void attention(benchmark::State& state, bool backward) {
  kernels::AttentionShape shape;
  shape.time = state.range(0);
  shape.heads = 2;
  shape.head_width = state.range(1);
  shape.scale = 0.125;
  const Index rows = shape.time, width = shape.width();
  const BenchmarkMatrix qkv(rows, 3 * width), out(rows, width), dout(rows, width),
      dqkv(rows, 3 * width), row_max(1, rows * shape.heads);
  const Buffer sums(static_cast<std::size_t>(rows * shape.heads) * sizeof(double));
  const DoubleVector row_sum(reinterpret_cast<double*>(sums.data()), {rows * shape.heads});
  const kernels::AttentionInputs inputs = kernels::split_qkv(ConstMatrix(qkv.view));
  const auto forward = [&] {
    kernels::attention_forward(runtime(), shape, inputs, {}, out.view, row_max.view[0], row_sum,
                               {});
  };
  forward();
  for (auto _ : state) {
    if (backward) {
      kernels::attention_backward(runtime(), shape, dout.view, inputs, {}, out.view,
                                  row_max.view[0], row_sum, kernels::split_qkv(dqkv.view), {});
    } else {
      forward();
    }
  }
  per_second(state, "FLOP/s",
             (backward ? 5.0 : 2.0) * static_cast<double>(shape.time * shape.time * width));
}
BENCHMARK_CAPTURE(attention, forward, false)
    ->ArgNames({"t", "d"})
    ->ArgsProduct({{64, 256, 1024}, {32, 64}});
BENCHMARK_CAPTURE(attention, backward, true)
    ->ArgNames({"t", "d"})
    ->ArgsProduct({{64, 256, 1024}, {32, 64}});

void layer_norm(benchmark::State& state, bool backward) {
  const Index rows = 256, width = state.range(0);
  const BenchmarkMatrix x(rows, width), y(rows, width), dy(rows, width), dx(rows, width),
      affine(4, width);
  const Buffer statistics(static_cast<std::size_t>(2 * rows) * sizeof(double));
  auto* doubles = reinterpret_cast<double*>(statistics.data());
  const DoubleVector mean(doubles, {rows}), rstd(doubles + rows, {rows});
  const auto forward = [&] {
    kernels::layer_norm_forward(runtime(), x.view, affine.view[0], affine.view[1], 1e-5, y.view,
                                mean, rstd);
  };
  forward();
  for (auto _ : state) {
    if (backward) {
      kernels::layer_norm_backward(runtime(), dy.view, x.view, affine.view[0], mean, rstd, {},
                                   dx.view, affine.view[2], affine.view[3]);
    } else {
      forward();
    }
  }
  per_second(state, "elements/s", static_cast<double>(rows * width));
}
BENCHMARK_CAPTURE(layer_norm, forward, false)->ArgName("width")->Arg(128)->Arg(768)->Arg(4096);
BENCHMARK_CAPTURE(layer_norm, backward, true)->ArgName("width")->Arg(128)->Arg(768)->Arg(4096);

void activation(benchmark::State& state, Activation act, bool backward) {
  const BenchmarkMatrix x(64, 1024), y(64, 1024), dy(64, 1024);
  for (auto _ : state) {
    if (backward) {
      kernels::activation_backward(runtime(), act, dy.view, x.view, y.view);
    } else {
      kernels::activation_forward(runtime(), act, x.view, y.view);
    }
  }
  per_second(state, "elements/s", 64.0 * 1024);
}
BENCHMARK_CAPTURE(activation, gelu_forward, Activation::kGelu, false);
BENCHMARK_CAPTURE(activation, gelu_backward, Activation::kGelu, true);
BENCHMARK_CAPTURE(activation, gelu_tanh_forward, Activation::kGeluTanh, false);
BENCHMARK_CAPTURE(activation, gelu_tanh_backward, Activation::kGeluTanh, true);

void softmax(benchmark::State& state) {
  const BenchmarkMatrix x(16, state.range(0)), y(16, state.range(0));
  for (auto _ : state) kernels::softmax(runtime(), x.view, y.view);
  per_second(state, "elements/s", 16.0 * static_cast<double>(state.range(0)));
}
BENCHMARK(softmax)->ArgName("width")->Arg(64)->Arg(50257);

void adamw(benchmark::State& state) {
  const Index count = state.range(0);
  const BenchmarkMatrix value(1, count), grad(1, count), first(1, count), second(1, count);
  std::ranges::fill(second.flat(), 1.0f);
  for (auto _ : state) {
    // Without gradients the moments would fade to numbers too small for a float, which are slow.
    std::ranges::fill(grad.flat(), 0.01f);
    kernels::adamw(runtime(), {}, {value.flat(), grad.flat(), first.flat(), second.flat()});
  }
  per_second(state, "elements/s", static_cast<double>(count));
}
BENCHMARK(adamw)->ArgName("parameters")->Arg(1 << 14)->Arg(1 << 22);

}  // namespace
}  // namespace prenorm

BENCHMARK_MAIN();
