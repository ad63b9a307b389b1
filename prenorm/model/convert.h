// A model from one form into another: Hugging Face's folder, nanoGPT's ckpt.pt, or a state dict in
// the names of torch.nn.TransformerEncoder; and from one floating-point type into another.
//
//   convert_model("out/ckpt.pt", "RUN", {});                        // a Hugging Face folder
//   convert_model("RUN", "out", {.layout = WeightLayout::kNanoGpt});
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "prenorm/formats/dtype.h"
#include "prenorm/model/model_source.h"

namespace prenorm {

enum class WeightLayout {
  kHf,       // config.json, generation_config.json, model.safetensors: [in, out]
  kNanoGpt,  // ckpt.pt: {'model', 'model_args'}, [out, in]
  kTorch,    // model.pt: wte, wpe, layers.N.self_attn.in_proj_weight, …, norm, lm_head; [out, in]
};
std::optional<WeightLayout> weight_layout_from_name(std::string_view name);  // hf, nanogpt, torch

struct ConvertOptions {
  WeightLayout layout = WeightLayout::kHf;
  std::optional<Dtype> dtype;  // F32, F16, BF16 or F64, rounded to nearest even; else as it was
  SourceHints hints;
};

// Reads `from` (model_source.h), checks it whole, and writes into `folder` what the layout lists
// and copies of the tokenizer's files. The same input gives the same bytes. A tied head stays tied.
// Returns notices for the user, a line each. Throws IoError, FormatError, and ConfigError for a
// model that the layout cannot say.
std::vector<std::string> convert_model(const std::filesystem::path& from,
                                       const std::filesystem::path& folder,
                                       const ConvertOptions& options);

}  // namespace prenorm
