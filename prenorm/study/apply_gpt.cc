// The model among the layers of apply.h: its logits, its loss, and the gradients of its parameters.
#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "prenorm/base/error.h"
#include "prenorm/base/utf8.h"
#include "prenorm/model/checkpoint.h"
#include "prenorm/reference/gpt.h"
#include "prenorm/study/apply.h"
#include "prenorm/study/apply_inputs.h"
#include "prenorm/study/kernel_memory.h"
#include "prenorm/study/layer_pass.h"
#include "prenorm/study/loss_reduction.h"

namespace prenorm {
namespace {

using Shape = std::vector<Index>;
constexpr const char* kHead = "lm_head.weight";
constexpr const char* kTokenEmbedding = "transformer.wte.weight";

struct GptOutcome {
  Values logits;              // [N, V]
  Values losses;              // [1]: the mean; absent without targets
  ParameterValues gradients;  // by our names
};

struct GptPass {
  Index batch = 0, time = 0;
  std::vector<TokenId> tokens, targets;  // [B·T]
};

// The model without dropout, and with biases if the folder's file has them.
struct FolderModel {
  std::unique_ptr<Gpt> model;
  TensorFile file;

  FolderModel(const std::filesystem::path& folder, Gpt::Mode mode)
      : file((folder / "model.safetensors").string(), {}) {
    // Checks the folder; what follows only computes with its numbers in another form.
    const auto loaded = load_pretrained(folder, Gpt::Mode::kInference);
    file = read_tensors(folder / "model.safetensors");
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

GptOutcome by_kernels(const Runtime& run, Gpt& model, const GptPass& pass) {
  const TokenMatrix tokens(pass.tokens.data(), {pass.batch, pass.time});
  auto work = model.make_workspace(pass.batch, pass.time);
  const Index rows = pass.batch * pass.time;
  FloatMatrix logits(rows, model.config().vocab_size);
  model.logits(run, work, tokens, logits.view());
  GptOutcome out;
  out.logits = logits.values({rows, logits.columns()});
  if (pass.targets.empty()) return out;
  const auto count = std::ranges::count_if(pass.targets, [](TokenId id) { return id != -1; });
  const double scale = count == 0 ? 0.0 : 1.0 / static_cast<double>(count);
  const TokenBatch batch{tokens, {pass.targets.data(), {pass.batch, pass.time}}};
  const LossSum loss = model.forward_backward(run, work, batch, scale, {});
  model.finish_gradients(run, work);
  out.losses = Values({1}, {loss.mean()});
  for (const Parameter& p : model.parameters()) {
    out.gradients[p.name] = Values(p.shape, {p.grad.begin(), p.grad.end()});
  }
  return out;
}

reference::Activation textbook(Activation act) {
  if (act == Activation::kRelu) return reference::Activation::kRelu;
  return act == Activation::kGelu ? reference::Activation::kGelu : reference::Activation::kGeluTanh;
}

GptOutcome by_textbook(const FolderModel& folder, const GptPass& pass) {
  const GptConfig& config = folder.model->config();
  const auto p = reference::from_map(folder.values(), config.n_layer);
  reference::GptSettings settings;
  settings.n_layer = config.n_layer;
  settings.n_head = config.n_head;
  settings.norm = config.norm == NormPlacement::kPre ? reference::NormPlacement::kPre
                                                     : reference::NormPlacement::kPost;
  settings.activation = textbook(config.activation);
  settings.eps = config.layer_norm_epsilon;
  settings.tied = config.tie_word_embeddings;
  const auto options = reference::gpt_options(settings);
  const reference::Tokens tokens({pass.batch, pass.time}, pass.tokens);
  GptOutcome out;
  out.logits = reference::gpt(tokens, p, options);
  if (pass.targets.empty()) return out;
  const reference::Tokens targets({pass.batch, pass.time}, pass.targets);
  out.losses = reduced_loss(reference::cross_entropy(out.logits, targets), pass.targets,
                            LossReduction::kMean);
  const Values each = loss_gradient(Values({1}, {1.0}), pass.targets, LossReduction::kMean);
  const auto dlogits = reference::cross_entropy_backward(out.logits, targets, each[0]);
  out.gradients = reference::to_map(reference::gpt_backward(dlogits, tokens, p, options));
  return out;
}

// No tokens: no logits, a mean loss over nothing, gradients of zero.
GptOutcome of_nothing(const FolderModel& folder) {
  GptOutcome out;
  out.logits = Values({0, folder.model->config().vocab_size});
  out.losses = Values({1}, {std::numeric_limits<double>::quiet_NaN()});
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
  if (const Tensor* targets = in.find("targets")) {
    in.expect_shape(*targets, shape);
    pass.targets = in.ids(*targets, config.vocab_size, {-1, -100});
  }
  return pass;
}

}  // namespace

std::vector<Tensor> apply_gpt(const Runtime& run, const ApplyOptions& options,
                              const std::filesystem::path& folder, const TensorFile& inputs) {
  const ApplyInputs in(inputs, {"input_ids", "targets"});
  const bool train = in.find("targets") != nullptr;
  FolderModel loaded(folder, train ? Gpt::Mode::kTraining : Gpt::Mode::kInference);
  const GptPass pass = read_pass(in, loaded.model->config());
  const GptOutcome out = pass.tokens.empty() ? of_nothing(loaded)
                         : options.reference ? by_textbook(loaded, pass)
                                             : by_kernels(run, *loaded.model, pass);
  Shape shape = in.require("input_ids").shape;
  shape.push_back(loaded.model->config().vocab_size);
  std::vector<Tensor> files;
  files.push_back(owned_tensor("logits", shape, out.logits, options.reference));
  if (!train) return files;
  files.push_back(owned_tensor("loss", {}, out.losses, options.reference));
  for (const Tensor& t : loaded.file.tensors()) {
    const auto it = out.gradients.find(loaded.name_of(t));
    if (it == out.gradients.end()) continue;
    files.push_back(owned_tensor("grad." + t.name, t.shape, it->second, options.reference));
  }
  return files;
}

}  // namespace prenorm
