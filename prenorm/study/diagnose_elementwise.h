// The parts of a replay that are no matrix product, as quick as those: the textbook's norm
// (reference/layer_norm.h), attention (reference/attention.h) with every mistake of its options,
// and activations, in double. Equal to the textbook but for the last bits of sums, exp and Φ.
#pragma once
#include "prenorm/kernels/runtime.h"
#include "prenorm/reference/activation.h"
#include "prenorm/reference/attention.h"
#include "prenorm/reference/layer_norm.h"
#include "prenorm/study/diagnose_model.h"

namespace prenorm {

reference::LayerNormParameters<double> wide(const reference::LayerNormParameters<float>& p);

// x: [.., C]; not of a norm that is taken over the time. `spread`: over the runtime's threads, else
// on the calling one.
Values quick_norm(const Runtime& run, const Values& x,
                  const reference::LayerNormParameters<double>& p,
                  const reference::LayerNormOptions& options, bool spread);

// qkv: sequences of `time` tokens, 3 C columns; returns as many rows of C columns.
Values quick_attention(const Runtime& run, const Values& qkv, Index time,
                       const reference::AttentionOptions& options, bool spread);

// The first rows of the same, of one sequence [T, 3 C]: [rows, C].
Values quick_attention_start(const Runtime& run, const Values& qkv,
                             const reference::AttentionOptions& options, Index rows);

// Of the same shape as x.
Values quick_activation(const Runtime& run, const Values& x,
                        const reference::ActivationOptions& options, bool spread);

}  // namespace prenorm
