// Times causal attention without and with its backward pass, at one shape.
#pragma once
#include "prenorm/kernels/attention.h"

namespace prenorm::kernels {

struct AttentionTimes {
  double forward = 0.0, backward = 0.0;  // seconds, the best of several
  // Of the products over the keys that are seen: 2 B T² C forward, 5 B T² C backward.
  double forward_flops = 0.0, backward_flops = 0.0;
  std::size_t scratch_bytes = 0;  // what the kernels hold besides operands and results
};

// Random packed heads of `shape`. At least three passes, and about `seconds` of them.
AttentionTimes time_attention(const AttentionShape& shape, const Runtime& run, double seconds);

}  // namespace prenorm::kernels
