#include "tests/cases/registry.h"

namespace prenorm::cases {

const Registry& registry() {
  static const Registry ops = [] {
    Registry table;
    for (const auto add :
         {add_layer_ops, add_attention_ops, add_block_ops, add_loss_ops, add_optimizer_ops,
          add_training_ops, add_run_ops, add_model_ops, add_bert_ops, add_generation_ops,
          add_tokenizer_ops, add_sampling_ops, add_file_ops, add_checkpoint_ops}) {
      add(table);
    }
    return table;
  }();
  return ops;
}

std::string_view later_work(const std::string& op) {
  static const std::map<std::string, std::string_view> later = {
      {"rope_permute", "GGUF and LLaMA"}, {"hf_llama_logits", "LLaMA"}, {"gguf_load", "GGUF"}};
  const auto found = later.find(op);
  return found == later.end() ? std::string_view() : found->second;
}

}  // namespace prenorm::cases
