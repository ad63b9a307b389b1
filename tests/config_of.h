// A model's config of given sizes, for tests.
#pragma once
#include "prenorm/model/gpt_config.h"

namespace prenorm {

inline GptConfig config_of(Index layers, Index heads, Index width, Index context,
                           Index vocabulary) {
  GptConfig config;
  config.n_layer = layers;
  config.n_head = heads;
  config.n_embd = width;
  config.block_size = context;
  config.vocab_size = vocabulary;
  return config;
}

}  // namespace prenorm
