// A whole model on given tokens: its logits, its loss, the gradients of its parameters; by the
// kernels or by the textbook, for `prenorm apply gpt`.
#pragma once
#include <vector>

#include "prenorm/model/gpt.h"
#include "prenorm/reference/gpt.h"
#include "prenorm/study/layer_pass.h"

namespace prenorm {

struct GptPass {
  Index batch = 0, time = 0;
  std::vector<TokenId> tokens;    // [B·T]
  std::vector<TokenId> targets;   // [B·T], −1 where ignored, or empty
  Values grad_output;             // [B·T, V]: of the logits; absent: of the mean loss, if any
  reference::AttentionMask mask;  // added: [B, H, T, T], B and H may be 1; key_padding: [B, T]
};

struct GptOutcome {
  Values logits;              // [B·T, V]
  Values loss;                // [1]: the mean over the targets; absent without targets
  ParameterValues gradients;  // by Hugging Face's names; empty without targets and grad_output
};

// Requires: a model without dropout, made for training where there are gradients; pass.tokens is
// not empty and fits its context.
GptOutcome gpt_by_kernels(const Runtime& run, Gpt& model, const GptPass& pass);

// The textbook's options for a model of this config, without dropout.
reference::GptOptions textbook_options(const GptConfig& config);

GptOutcome gpt_by_textbook(const GptConfig& config, const ParameterValues& parameters,
                           const GptPass& pass);

}  // namespace prenorm
