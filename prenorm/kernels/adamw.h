// AdamW (Loshchilov, Hutter 2019), PyTorch's formula, with gradient clipping and clearing fused:
//
//   g ← clip · g;  p ← p (1 − lr λ);  m ← β1 m + (1 − β1) g;  v ← β2 v + (1 − β2) g²
//   p ← p − lr / (1 − β1^t) · m / (sqrt(v) / sqrt(1 − β2^t) + ε);  g ← 0
#pragma once
#include <span>

#include "prenorm/kernels/runtime.h"

namespace prenorm::kernels {

struct AdamWStep {
  double learning_rate = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.0;
  Index step = 1;           // t, counted from 1
  double grad_scale = 1.0;  // clip
};

// A parameter or a stretch of one, and what belongs to it: four spans of the same length.
struct AdamWStretch {
  std::span<float> value, grad, first_moment, second_moment;
  bool decays = true;  // else as if weight_decay were 0
};

// One pass over all of them. Overwrites all four spans of each; grad becomes 0. A stretch is
// updated by one thread: kAdamWStretch is a good length.
constexpr Index kAdamWStretch = 16384;
void adamw(const Runtime& run, const AdamWStep& step, std::span<const AdamWStretch> stretches);
// The same of one parameter, cut by the call.
void adamw(const Runtime& run, const AdamWStep& step, const AdamWStretch& parameter);

// Σ x² in double, by one fixed tree: chunks of kSquaresChunk elements, each by itself, added in
// ascending order. For the gradient norm.
constexpr Index kSquaresChunk = 65536;  // part of the arithmetic, not a tuning knob
double sum_of_squares(const Runtime& run, std::span<const float> x);
// The chunks' sums alone, of any number of arrays at once: sums[i] = Σ x² over chunks[i], which has
// at most kSquaresChunk elements. Overwrites sums, as many as there are chunks.
void squares_of_chunks(const Runtime& run, std::span<const std::span<const float>> chunks,
                       std::span<double> sums);

}  // namespace prenorm::kernels
