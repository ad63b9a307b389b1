// One Transformer block inside somebody else's program: forward, backward, and a look at a
// gradient. No tokens, no model, no trainer: rows of features in, rows of features out.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "prenorm/layers/transformer_block.h"

using prenorm::Index;

namespace {

constexpr Index kBatch = 2, kTime = 8, kWidth = 32, kRows = kBatch * kTime;

// Any numbers will do for an example; these are the same on every run.
void fill(std::span<float> values, float scale) {
  std::uint32_t state = 1;
  for (float& value : values) {
    state = state * 1664525u + 1013904223u;
    value = scale * (static_cast<float>(state >> 8) * 0x1p-23f - 1.0f);
  }
}

}  // namespace

int main() {
  const prenorm::Runtime run;  // all cores, the fastest instruction set

  // A layer registers its parameters; the registry then lays them out in one block.
  prenorm::ParameterRegistry parameters;
  prenorm::TransformerBlock block(parameters, "h.0", {.width = kWidth, .heads = 4, .inner = 128});
  parameters.allocate(/*with_gradients=*/true);
  for (prenorm::Parameter& p : parameters) {
    // Matrices get small numbers, the norms' weights one, biases stay zero.
    if (p.shape.size() == 2) fill(p.value, 0.2f);
    if (p.name.ends_with("ln_1.weight") || p.name.ends_with("ln_2.weight")) {
      std::fill(p.value.begin(), p.value.end(), 1.0f);
    }
  }

  // Memory is described once and walked twice: measured, then placed.
  const auto plan = [&](prenorm::Arena& arena) {
    return block.plan(arena, kBatch, kTime, block.plan_shared(arena, kBatch, kTime, true));
  };
  prenorm::Arena measure;
  plan(measure);
  prenorm::Buffer memory(measure.used());
  prenorm::Arena place(memory.bytes());
  prenorm::TransformerBlock::Saved saved = plan(place);

  std::vector<float> x_data(kRows * kWidth), y_data(x_data.size()), dy_data(x_data.size(), 1.0f);
  fill(x_data, 1.0f);
  const prenorm::Matrix x(x_data.data(), {kRows, kWidth});    // [B·T, C]
  const prenorm::Matrix y(y_data.data(), {kRows, kWidth});    // [B·T, C]
  const prenorm::Matrix dy(dy_data.data(), {kRows, kWidth});  // ones: the gradient of Σ y

  block.forward(run, kBatch, kTime, x, y, saved);
  block.backward(run, kBatch, kTime, x, saved, dy);  // dy is dx from here on

  for (const prenorm::Parameter& p : parameters) {
    double square = 0.0;
    for (float g : p.grad) square += double{g} * double{g};
    std::printf("|d %s| = %.4f\n", p.name.c_str(), std::sqrt(square));
    if (!(square > 0.0)) return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}
