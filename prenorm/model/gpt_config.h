// What a GPT is made of. Names and defaults are Hugging Face's GPT2Config and nanoGPT's.
#pragma once
#include <optional>
#include <string>

#include "prenorm/kernels/activation.h"
#include "prenorm/layers/transformer_block.h"

namespace prenorm {

struct GptConfig {
  Index vocab_size = 50257;
  Index block_size = 1024;  // context length, n_positions
  Index n_layer = 12;
  Index n_head = 12;
  Index n_embd = 768;
  Index n_inner = 0;  // feed-forward width; 0 means 4 * n_embd
  NormPlacement norm = NormPlacement::kPre;
  Activation activation = Activation::kGeluTanh;
  double layer_norm_epsilon = 1e-5;
  bool scale_attn_weights = true;                // attention scores times 1 / √D
  bool scale_attn_by_inverse_layer_idx = false;  // and times 1 / (layer + 1)
  bool bias = true;                              // biases in linear layers and layer norms
  bool tie_word_embeddings = true;               // the head is wte
  double embd_pdrop = 0.0;
  double attn_pdrop = 0.0;
  double resid_pdrop = 0.0;
  double initializer_range = 0.02;
  std::optional<TokenId> bos_token_id, eos_token_id;

  // What multiplies the attention scores of a layer, counted from 0.
  double attention_scale(Index layer) const;
  // Elements of all matrices that tokens are multiplied with, the head's among them.
  Index matrix_elements() const {
    return n_layer * n_embd * (4 * n_embd + 2 * feed_forward_width()) + vocab_size * n_embd;
  }
  Index feed_forward_width() const { return n_inner == 0 ? 4 * n_embd : n_inner; }
  // Multiplications and additions of a forward pass over `time` tokens of one sequence: 2 for each
  // matrix element and token, and 2 n_layer T² C for causal attention.
  double forward_flops(Index time) const;
  // Throws ConfigError naming the field, what was expected and what was found.
  void validate() const;
};

}  // namespace prenorm
