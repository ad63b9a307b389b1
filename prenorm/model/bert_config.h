// What a BERT encoder is made of (Devlin et al. 2019). Names and defaults are Hugging Face's
// BertConfig; load_bert_config() reads its config.json.
#pragma once
#include <filesystem>
#include <string_view>

#include "prenorm/kernels/activation.h"
#include "prenorm/tensor/view.h"

namespace prenorm {

struct BertConfig {
  Index vocab_size = 30522;
  Index max_position_embeddings = 512;
  Index type_vocab_size = 2;
  Index hidden_size = 768;
  Index num_hidden_layers = 12;
  Index num_attention_heads = 12;
  Index intermediate_size = 3072;
  Activation hidden_act = Activation::kGelu;
  double layer_norm_eps = 1e-12;
  TokenId pad_token_id = 0;
  bool add_pooling_layer = true;  // no key of config.json: whether the weights have a pooler

  // Throws ConfigError naming the field, what was expected and what was found.
  void validate() const;
};

// Unknown keys are ignored; missing ones take the defaults. Throws FormatError naming file and key
// for a model_type other than "bert", for a wrong type or a value out of range, and for what
// changes the arithmetic and is not supported: relative positions, decoders, other activations.
BertConfig parse_bert_config(std::string_view json, std::string_view name);
BertConfig load_bert_config(const std::filesystem::path& folder);  // folder/config.json

}  // namespace prenorm
