// How large activations and gradients are at each depth of a stack: the growth that norms and
// residual connections make or prevent.
//
//   for (const GrowthCurve& c : stack_growth({.layers = 12, .gain = 4})) draw(c.name, c.forward);
//   const GrowthCurve mine = model_growth(run, *model, batch);
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "prenorm/model/gpt.h"

namespace prenorm {

// All sizes are root mean squares over the numbers of all tokens.
struct GrowthCurve {
  std::string name;                // "pre-norm"
  std::string formula;             // of one layer: "x + f(LN(x))"
  std::string meaning;             // what the curve shows, in two sentences
  std::vector<double> forward;     // the stream before layer 0, 1, …, and after the last
  std::vector<double> branch;      // what each layer's function f reads
  std::vector<double> backward;    // the gradient of the stream at the places of `forward`
  std::vector<double> parameters;  // of models: the norm of the gradient of each block's parameters
};

// A layer's function f is one random matrix with numbers of standard deviation gain/√width: it
// makes its input `gain` times larger.
struct StackOptions {
  Index layers = 12;
  Index width = 64;
  Index tokens = 32;  // rows, of size 1
  double gain = 4.0;  // where no residual connection holds the stream; with one, f has gain 1
  std::uint64_t seed = 1;
};

// In double, by the textbook: no norm, a norm after each layer, pre-norm, post-norm. The gradient
// at the end is random and of size 1. Throws ConfigError.
std::vector<GrowthCurve> stack_growth(const StackOptions& options);

// √(1 + l), l = 0 … layers: the size of a stream of 1 to which each layer adds something of size 1
// that is independent of it.
std::vector<double> square_root_growth(Index layers);

// A model on real tokens: the stream, what the blocks' attention reads, the gradient of Σ loss /
// tokens. `model` is made for training; its gradients are left zero. Name and meaning are those of
// its norms' placement.
GrowthCurve model_growth(const Runtime& run, Gpt& model, const TokenBatch& batch);

}  // namespace prenorm
