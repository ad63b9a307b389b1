// What a layer is computed from and what comes out, whichever of the two ways computes it: the
// kernels (kernel_pass.h) or the textbook (textbook_pass.h). All numbers are double here; those of
// the kernels are floats, which fit.
#pragma once
#include <optional>
#include <vector>

#include "prenorm/model/parameter_layout.h"
#include "prenorm/reference/attention_mask.h"
#include "prenorm/study/apply.h"

namespace prenorm {

using Values = reference::Tensor<double>;

struct LayerPass {
  ApplyLayer layer = ApplyLayer::kLayerNorm;
  ApplyOptions options;
  // Attention, block, stack, scaled-dot-product-attention: [B, T, C]; every other: rows [N, C].
  Values input;
  Values key, value;  // [B, S, C] and [B, S, E], or absent: the input's
  // added: [B, H, T, S], B and H may be 1; key_padding: [B, S].
  reference::AttentionMask mask;
  std::vector<TokenId> ids;    // [N]: of embedding; targets of cross-entropy, −1 where ignored
  ParameterValues parameters;  // by the names of parameter_names.h; biases may be missing
  Index layers = 1;            // of a stack
  // Of the attention scores of each of its layers; empty: options.scale in all.
  std::vector<double> scales;
  Values grad_output;  // of the output's shape; absent: no backward pass
};

// What multiplies the attention scores of a layer; nothing: 1/√D.
inline std::optional<double> attention_scale(const LayerPass& pass, Index layer) {
  return pass.scales.empty() ? pass.options.scale : pass.scales.at(static_cast<std::size_t>(layer));
}

struct LayerOutcome {
  Values output;
  Values dinput, dkey, dvalue;  // absent without a backward pass
  ParameterValues gradients;    // of the parameters that are there
};

}  // namespace prenorm
