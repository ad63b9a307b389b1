#include "prenorm/layers/layer_benchmark.h"

#include <algorithm>
#include <array>
#include <utility>

#include "prenorm/kernels/activation.h"
#include "prenorm/kernels/adamw.h"
#include "prenorm/kernels/benchmarking.h"
#include "prenorm/kernels/cross_entropy.h"
#include "prenorm/kernels/layer_norm.h"
#include "prenorm/layers/transformer_block.h"

namespace prenorm {
namespace {

using kernels::BenchmarkMatrix;

class Timer {
 public:
  explicit Timer(double seconds) : seconds_(seconds) {}

  template <typename Call>
  void operator()(LayerTime what, const Call& call) {
    what.seconds = kernels::best_of(seconds_, call);
    times.push_back(std::move(what));
  }

  std::vector<LayerTime> times;

 private:
  double seconds_;
};

void time_norm(const Runtime& run, Index rows, Index width, Timer& timer) {
  const BenchmarkMatrix x(rows, width), y(rows, width), dy(rows, width), dx(rows, width),
      affine(4, width);
  const Buffer statistics(static_cast<std::size_t>(2 * rows) * sizeof(double));
  auto* doubles = reinterpret_cast<double*>(statistics.data());
  const DoubleVector mean(doubles, {rows}), rstd(doubles + rows, {rows});
  const double elements = static_cast<double>(rows * width);
  timer({"layer norm, forward", {rows, width}, 0, 0, 8 * elements}, [&] {
    kernels::layer_norm_forward(run, x.view, affine.view[0], affine.view[1], 1e-5, y.view, mean,
                                rstd);
  });
  timer({"layer norm, backward", {rows, width}, 0, 0, 12 * elements}, [&] {
    kernels::layer_norm_backward(run, dy.view, x.view, affine.view[0], mean, rstd, {}, dx.view,
                                 affine.view[2], affine.view[3]);
  });
}

void time_activation(const Runtime& run, Activation act, Index rows, Index width, Timer& timer) {
  const BenchmarkMatrix x(rows, width), y(rows, width), dy(rows, width);
  const double elements = static_cast<double>(rows * width);
  const std::string name(activation_name(act));
  timer({name + ", forward", {rows, width}, 0, 0, 8 * elements},
        [&] { kernels::activation_forward(run, act, x.view, y.view); });
  timer({name + ", backward", {rows, width}, 0, 0, 12 * elements},
        [&] { kernels::activation_backward(run, act, dy.view, x.view, y.view); });
}

void time_softmax(const Runtime& run, Index rows, Index width, Timer& timer) {
  const BenchmarkMatrix x(rows, width), y(rows, width);
  timer({"softmax", {rows, width}, 0, 0, 8 * static_cast<double>(rows * width)},
        [&] { kernels::softmax(run, x.view, y.view); });
}

void time_adamw(const Runtime& run, Index count, Timer& timer) {
  const BenchmarkMatrix value(1, count), grad(1, count), first(1, count), second(1, count);
  std::ranges::fill(second.flat(), 1.0f);
  const kernels::AdamWStretch all{value.flat(), grad.flat(), first.flat(), second.flat()};
  timer({"AdamW", {count}, 0, 0, 32 * static_cast<double>(count)},
        [&] { kernels::adamw(run, {}, all); });
}

void time_block(const Runtime& run, Index batch, Index time, Index width, Index heads,
                Timer& timer) {
  TransformerBlock::Options options;
  options.width = width;
  options.heads = heads;
  options.inner = 4 * width;
  ParameterRegistry parameters;
  TransformerBlock block(parameters, "block", options);
  parameters.allocate(true);
  const auto weights = parameters.values();
  for (std::size_t i = 0; i < weights.size(); ++i) {
    weights[i] = static_cast<float>(static_cast<Index>(i) * 7919 % 1009 - 504) / 25200.0f;
  }
  const BenchmarkMatrix x(batch * time, width), y(batch * time, width);
  const auto plan = [&](Arena& arena) {
    return block.plan(arena, batch, time, block.plan_shared(arena, batch, time, true));
  };
  Arena measure;
  plan(measure);
  const Buffer memory(measure.used());
  Arena place(memory.bytes());
  TransformerBlock::Saved saved = plan(place);
  const double t = static_cast<double>(time), c = static_cast<double>(width);
  const double flops = static_cast<double>(batch) * (24 * c * c * t + 2 * t * t * c);
  const double bytes = 4 * 12 * c * c;
  timer({"block, forward and backward", {batch, time, width}, 0, 3 * flops, bytes}, [&] {
    block.forward(run, batch, time, x.view, y.view, saved);
    block.backward(run, batch, time, x.view, saved, y.view);
  });
  block.pack(run);
  timer({"block, evaluation", {batch, time, width}, 0, flops, bytes},
        [&] { block.forward(run, batch, time, x.view, y.view, saved); });
}

}  // namespace

std::vector<LayerTime> time_layers(const Runtime& run, double seconds) {
  constexpr std::array<std::array<Index, 4>, 5> kBlocks = {
      {{1, 1, 768, 12}, {1, 128, 768, 12}, {8, 128, 768, 12}, {8, 512, 768, 12}, {32, 64, 128, 4}}};
  Timer timer(seconds / 22);
  time_norm(run, 8192, 768, timer);
  time_norm(run, 8192, 128, timer);
  time_norm(run, 1024, 4096, timer);
  time_activation(run, Activation::kGelu, 1024, 3072, timer);
  time_activation(run, Activation::kGeluTanh, 1024, 3072, timer);
  time_softmax(run, 1024, 50257, timer);
  time_adamw(run, Index{1} << 24, timer);
  for (const auto& [batch, time, width, heads] : kBlocks) {
    time_block(run, batch, time, width, heads, timer);
  }
  return std::move(timer.times);
}

}  // namespace prenorm
