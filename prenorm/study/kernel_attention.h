// The layers with attention alone by the kernels, in float: multi-head attention, to the input
// itself or to other keys and values, and scaled dot-product attention.
#pragma once
#include "prenorm/study/layer_pass.h"

namespace prenorm {

// As kernel_pass(). Requires: pass.layer is kAttention or kScaledDotProductAttention.
LayerOutcome kernel_attention(const Runtime& run, const LayerPass& pass);

}  // namespace prenorm
