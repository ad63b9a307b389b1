// The table of ops: what each name in `input.op` runs.
#pragma once
#include <map>
#include <string>
#include <string_view>

#include "tests/cases/case.h"

namespace prenorm::cases {

using Registry = std::map<std::string, Op>;

// All ops.
const Registry& registry();
// What an op of later work belongs to ("LLaMA"), or empty.
std::string_view later_work(const std::string& op);

// Each family adds its own.
void add_layer_ops(Registry& ops);
void add_attention_ops(Registry& ops);
void add_block_ops(Registry& ops);
void add_loss_ops(Registry& ops);
void add_optimizer_ops(Registry& ops);
void add_training_ops(Registry& ops);
void add_run_ops(Registry& ops);
void add_model_ops(Registry& ops);
void add_bert_ops(Registry& ops);
void add_generation_ops(Registry& ops);
void add_tokenizer_ops(Registry& ops);
void add_sampling_ops(Registry& ops);
void add_file_ops(Registry& ops);
void add_checkpoint_ops(Registry& ops);

}  // namespace prenorm::cases
