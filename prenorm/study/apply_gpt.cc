// The model among the layers of apply.h: its logits, its loss, and the gradients of its parameters.
#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "prenorm/base/error.h"
#include "prenorm/base/utf8.h"
#include "prenorm/model/checkpoint.h"
#include "prenorm/model/model_source.h"
#include "prenorm/study/apply.h"
#include "prenorm/study/apply_inputs.h"
#include "prenorm/study/attention_masks.h"
#include "prenorm/study/gpt_pass.h"

namespace prenorm {
namespace {

using Shape = std::vector<Index>;
constexpr const char* kHead = "lm_head.weight";
constexpr const char* kTokenEmbedding = "transformer.wte.weight";

// The model without dropout, and with biases if the folder's file has them.
struct FolderModel {
  std::unique_ptr<Gpt> model;
  TensorFile file;

  FolderModel(const std::filesystem::path& folder, Gpt::Mode mode) : file(folder.string(), {}) {
    // Checks the folder; what follows only computes with its numbers in another form.
    const auto loaded = checked(folder);
    file = read_weights(folder);
    GptConfig config = loaded->config();
    config.attn_pdrop = config.embd_pdrop = config.resid_pdrop = 0.0;
    config.bias = config.bias || std::ranges::any_of(file.tensors(), [](const Tensor& t) {
                    return t.name.ends_with("ln_f.bias");
                  });
    model = std::make_unique<Gpt>(config, mode);
    for (Parameter& p : model->parameters()) {
      const Parameter* from = loaded->parameters().find(p.name);
      if (from != nullptr) std::ranges::copy(from->value, p.value.begin());
    }
  }

  static std::unique_ptr<Gpt> checked(const std::filesystem::path& folder) {
    try {
      return load_pretrained(folder, Gpt::Mode::kInference);
    } catch (const ConfigError& error) {  // the folder's fault, not an option's
      throw FormatError(printable(folder.string()) + ": " + error.what());
    }
  }

  // Our name of a tensor of the file.
  std::string name_of(const Tensor& t) const {
    std::string name =
        t.name.starts_with("transformer.") || t.name == kHead ? t.name : "transformer." + t.name;
    return name == kHead && model->config().tie_word_embeddings ? kTokenEmbedding : name;
  }

  // The numbers as the file has them.
  ParameterValues values() const {
    ParameterValues out;
    for (const Tensor& t : file.tensors()) {
      const std::string name = name_of(t);
      if (model->parameters().find(name) != nullptr) out[name] = Values(t.shape, file.doubles(t));
    }
    return out;
  }
};

// No tokens: no logits, a mean loss over nothing, gradients of zero.
GptOutcome of_nothing(const FolderModel& folder) {
  GptOutcome out;
  out.logits = Values({0, folder.model->config().vocab_size});
  out.loss = Values({1}, {std::numeric_limits<double>::quiet_NaN()});
  for (const Parameter& p : std::as_const(*folder.model).parameters()) {
    out.gradients[p.name] = Values(p.shape);
  }
  return out;
}

GptPass read_pass(const ApplyInputs& in, const GptConfig& config) {
  const Tensor& tokens = in.require("input_ids");
  const Shape& shape = tokens.shape;
  if (shape.size() != 1 && shape.size() != 2) in.refuse_shape(tokens, "[B, T] or [T]");
  GptPass pass;
  pass.time = shape.back();
  pass.batch = shape.size() == 2 ? shape[0] : 1;
  if (pass.time > config.block_size) {
    in.refuse_shape(
        tokens, "at most " + std::to_string(config.block_size) + " tokens, the model's context");
  }
  pass.tokens = in.ids(tokens, config.vocab_size);
  const Tensor* targets = in.find("targets");
  if (targets != nullptr) {
    in.expect_shape(*targets, shape);
    pass.targets = in.ids(*targets, config.vocab_size, {-1, -100});
  }
  Shape logits = shape;
  logits.push_back(config.vocab_size);
  pass.grad_output = in.grad_output(logits, {tokens.size(), config.vocab_size});
  if (targets != nullptr && !pass.grad_output.absent()) {
    in.file().refuse(in.require("grad_output"), "targets or grad_output", "both");
  }
  pass.mask = read_attention_masks(in.file(), in.find("attn_mask"), in.find("key_padding_mask"),
                                   {pass.batch, config.n_head, pass.time, pass.time});
  return pass;
}

}  // namespace

std::vector<Tensor> apply_gpt(const Runtime& run, const ApplyOptions& options,
                              const std::filesystem::path& folder, const TensorFile& inputs) {
  const ApplyInputs in(inputs,
                       {"input_ids", "targets", "attn_mask", "key_padding_mask", "grad_output"});
  const bool train = in.find("targets") != nullptr;
  FolderModel loaded(folder, train ? Gpt::Mode::kTraining : Gpt::Mode::kInference);
  const GptConfig& config = loaded.model->config();
  const GptPass pass = read_pass(in, config);
  const GptOutcome out = pass.tokens.empty() ? of_nothing(loaded)
                         : options.reference ? gpt_by_textbook(config, loaded.values(), pass)
                                             : gpt_by_kernels(run, *loaded.model, pass);
  Shape shape = in.require("input_ids").shape;
  shape.push_back(config.vocab_size);
  std::vector<Tensor> files;
  files.push_back(owned_tensor("logits", shape, out.logits, options.reference));
  if (train) files.push_back(owned_tensor("loss", {}, out.loss, options.reference));
  if (!train && pass.grad_output.absent()) return files;
  for (const Tensor& t : loaded.file.tensors()) {
    const auto it = out.gradients.find(loaded.name_of(t));
    if (it == out.gradients.end()) continue;
    files.push_back(owned_tensor("grad." + t.name, t.shape, it->second, options.reference));
  }
  return files;
}

}  // namespace prenorm
