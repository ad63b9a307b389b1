// A model's config.json and generation_config.json: GptConfig in Hugging Face's GPT2Config keys.
//
//   const GptConfig config = load_config("RUN");
//   save_config(config, "RUN");
//
// Two things GPT-2's config cannot say. A model without biases is written as GPT-2 with biases
// (which are zero) and "prenorm_bias": false. A post-norm model gets "model_type": "prenorm" and
// "norm": "post", and an activation_function that transformers does not know ("prenorm_gelu_new"),
// so that nothing loads it as what it is not.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "prenorm/model/gpt_config.h"

namespace prenorm {

// Unknown keys are ignored; missing ones take GPT2Config's defaults. Throws FormatError naming file
// and key for a wrong type, a value out of range, another model_type, and for what changes the
// arithmetic and is not supported (cross-attention, other activations).
GptConfig parse_config(std::string_view json, std::string_view name);
GptConfig load_config(const std::filesystem::path& folder);  // folder/config.json

std::string config_text(const GptConfig& config);             // what config.json holds
std::string generation_config_text(const GptConfig& config);  // what generation_config.json holds
// Writes both files durably. Throws IoError.
void save_config(const GptConfig& config, const std::filesystem::path& folder);

// The tokens that end a text: generation_config.json's, else config.json's; none is an empty list.
std::vector<TokenId> load_eos_token_ids(const std::filesystem::path& folder);

}  // namespace prenorm
