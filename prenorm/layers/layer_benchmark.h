// Times the parts of a model one by one on random numbers: the small kernels against the memory's
// bandwidth, and a whole block as it runs in evaluation and in training.
#pragma once
#include <string>
#include <vector>

#include "prenorm/kernels/runtime.h"

namespace prenorm {

struct LayerTime {
  std::string name;      // of the layer and the pass, e.g. "layer norm, backward"
  std::vector<Index> x;  // the input's shape
  double seconds = 0.0;  // the best of several
  double flops = 0.0;    // of the products in it, or 0
  double bytes = 0.0;    // read and written, each once
};

// About `seconds` in all.
std::vector<LayerTime> time_layers(const Runtime& run, double seconds);

}  // namespace prenorm
