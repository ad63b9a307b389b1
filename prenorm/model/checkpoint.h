// A model as a Hugging Face folder: config.json, generation_config.json, model.safetensors.
//
//   save_pretrained(model, "RUN");
//   std::unique_ptr<Gpt> model = load_pretrained("RUN", Gpt::Mode::kInference);
//
// transformers.GPT2LMHeadModel.from_pretrained loads such a folder as it is, and what it saves
// loads here into the same bits.
#pragma once
#include <filesystem>
#include <memory>

#include "prenorm/formats/tensor_file.h"
#include "prenorm/model/gpt.h"

namespace prenorm {

// Whether a model has its weights in memory of its own, or, for inference, reads float32 ones where
// its files are mapped: ready at once, in memory that processes share. Such a model is never
// written to, and whoever shortens the file kills the process (MappedFile); prenorm's own files are
// replaced.
enum class WeightMemory { kOwn, kMapped };

// Writes the three files, each durably. A tied head is not written twice; biases that a model does
// not have are written as zeros. Throws IoError.
void save_pretrained(const Gpt& model, const std::filesystem::path& folder);

// Reads such a folder; the weights may also be in several files with an index, or PyTorch's
// pytorch_model.bin (model_source.h). Names may lack the prefix "transformer."; mask buffers
// (h.N.attn.bias, h.N.attn.masked_bias) are ignored; F32, F16, BF16 and F64 are converted. Throws
// IoError; FormatError listing all tensors that are missing, unexpected or of another shape, and
// for a tied head that differs from wte or a bias-free model with a bias that is not zero. With a
// runtime its threads read together.
std::unique_ptr<Gpt> load_pretrained(const std::filesystem::path& folder, Gpt::Mode mode,
                                     const Runtime* run = nullptr,
                                     WeightMemory memory = WeightMemory::kOwn);

// The same of weights that were read before (model_source.h). Throws FormatError.
std::unique_ptr<Gpt> model_from_weights(const GptConfig& config, const TensorFile& weights,
                                        Gpt::Mode mode, const Runtime* run = nullptr,
                                        WeightMemory memory = WeightMemory::kOwn);

// Only the weights: fills `model` from a file by the same rules.
void load_weights(Gpt& model, const std::filesystem::path& file);

}  // namespace prenorm
