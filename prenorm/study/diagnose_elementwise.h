// The two parts of a replay that are no matrix product, as quick as those: the textbook's attention
// (reference/attention.h) with every mistake of its options, and its activations, in double. Equal
// to the textbook but for the last bits of exp and Φ.
#pragma once
#include "prenorm/kernels/runtime.h"
#include "prenorm/reference/activation.h"
#include "prenorm/reference/attention.h"
#include "prenorm/study/diagnose_model.h"

namespace prenorm {

// qkv: [B, T, 3 C]; returns [B, T, C]. `spread`: over the runtime's threads, else on the calling
// one.
Values quick_attention(const Runtime& run, const Values& qkv,
                       const reference::AttentionOptions& options, bool spread);

// The first rows of the same, of one sequence [T, 3 C]: [rows, C].
Values quick_attention_start(const Runtime& run, const Values& qkv,
                             const reference::AttentionOptions& options, Index rows);

// Of the same shape as x.
Values quick_activation(const Runtime& run, const Values& x,
                        const reference::ActivationOptions& options, bool spread);

}  // namespace prenorm
