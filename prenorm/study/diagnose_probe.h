// A model and an input on which mistakes stay visible even where numbers are rounded to bfloat16:
// a large ε beside embeddings of several sizes, sharp attention, wide activations, large biases.
//
//   write_diagnose_probe("probe");     // config.json, model.safetensors, input.safetensors
//
// The folder is a model folder: transformers.GPT2LMHeadModel.from_pretrained("probe") loads it.
#pragma once
#include <filesystem>
#include <string_view>

namespace prenorm {

// Throws IoError.
void write_diagnose_probe(const std::filesystem::path& folder);

// A script in PyTorch that dumps the stages of a model with hooks.
std::string_view diagnose_hook();

}  // namespace prenorm
