// Where a model's config and weights come from: a Hugging Face folder, or a checkpoint file of
// nanoGPT or minGPT; and how both look in Hugging Face's names and layout.
//
//   const ModelSource source = read_model_source("out/ckpt.pt");
//   use(source.config, source.weights.find("transformer.wte.weight"));
//
// nanoGPT's and minGPT's matrices are [out, in] and are transposed; their names are GPT-2's, with
// or without what torch.compile ("_orig_mod.") or a module around them put in front.
#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "prenorm/formats/tensor_file.h"
#include "prenorm/model/gpt_config.h"

namespace prenorm {

// What a checkpoint file does not say and its caller does.
struct SourceHints {
  std::optional<Index> n_head;           // of a state dict alone
  std::optional<Activation> activation;  // in place of nanoGPT's gelu and minGPT's gelu_new
};

struct ModelSource {
  GptConfig config;
  TensorFile weights;
  std::filesystem::path folder;  // where a tokenizer may lie
};

// The folder's weights as they are there: model.safetensors, model.safetensors.index.json,
// pytorch_model.bin or pytorch_model.bin.index.json, the first that there is.
// Throws IoError and FormatError.
TensorFile read_weights(const std::filesystem::path& folder);

// A folder with config.json, or a file: nanoGPT's ckpt.pt, or a state dict whose sizes tell the
// config but for the number of heads (which minGPT's config.json beside it tells, else the hints).
// Throws IoError, FormatError, and ConfigError for a number of heads that nothing tells.
ModelSource read_model_source(const std::filesystem::path& path, const SourceHints& hints = {});

// "wte.weight" as "transformer.wte.weight"; the head has no prefix.
std::string full_parameter_name(const std::string& name);

}  // namespace prenorm
