#include "prenorm/study/gpt_pass.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "prenorm/kernels/embedding.h"
#include "prenorm/kernels/matmul.h"
#include "prenorm/reference/gpt.h"
#include "prenorm/study/kernel_memory.h"
#include "prenorm/study/kernel_pass.h"
#include "prenorm/study/loss_reduction.h"
#include "prenorm/study/textbook_pass.h"

namespace prenorm {
namespace {

constexpr std::string_view kPrefix = "transformer.";
constexpr const char* kTokenEmbedding = "transformer.wte.weight";
constexpr const char* kPositionEmbedding = "transformer.wpe.weight";

// --- The model's own passes ---------------------------------------------------------------------

GptOutcome by_model(const Runtime& run, Gpt& model, const GptPass& pass) {
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
  out.loss = Values({1}, {loss.mean()});
  for (const Parameter& p : model.parameters()) {
    out.gradients[p.name] = Values(p.shape, {p.grad.begin(), p.grad.end()});
  }
  return out;
}

// --- Layer by layer: what the model has no pass for ---------------------------------------------

// Embedding, blocks with the final norm as a stack, and head.
class LayerByLayer {
 public:
  LayerByLayer(const Runtime& run, const Gpt& model, const GptPass& pass)
      : run_(run),
        config_(model.config()),
        pass_(pass),
        tokens_(pass.tokens.data(), {pass.batch, pass.time}),
        wte_(matrix(model, kTokenEmbedding)),
        wpe_(matrix(model, kPositionEmbedding)),
        head_(config_.tie_word_embeddings ? wte_ : matrix(model, "lm_head.weight")) {
    stack_.layer = ApplyLayer::kStack;
    stack_.options.heads = config_.n_head;
    stack_.options.norm = config_.norm;
    stack_.options.activation = config_.activation;
    stack_.options.eps = config_.layer_norm_epsilon;
    stack_.layers = config_.n_layer;
    for (Index l = 0; l < config_.n_layer; ++l) {
      stack_.scales.push_back(config_.attention_scale(l));
    }
    stack_.mask = pass.mask;
    for (const Parameter& p : model.parameters()) {
      if (!p.name.starts_with("transformer.h.") && !p.name.starts_with("transformer.ln_f"))
        continue;
      stack_.parameters[p.name.substr(kPrefix.size())] =
          Values(p.shape, {p.value.begin(), p.value.end()});
    }
  }

  GptOutcome run() {
    const Index rows = pass_.batch * pass_.time;
    FloatMatrix x(rows, config_.n_embd), logits(rows, config_.vocab_size);
    kernels::embedding_forward(run_, tokens_, wte_, wpe_, 0, x.view());
    stack_.input = x.values({pass_.batch, pass_.time, config_.n_embd});
    const FloatMatrix normed(kernel_pass(run_, stack_).output);
    kernels::matmul(run_, normed.view(), kernels::Right::transposed(head_), logits.view(), {});
    GptOutcome out;
    out.logits = logits.values({rows, config_.vocab_size});
    const Values dlogits = logits_gradient(out);
    if (!dlogits.absent()) backward(FloatMatrix(dlogits), normed, out);
    return out;
  }

 private:
  static ConstMatrix matrix(const Gpt& model, std::string_view name) {
    return model.parameters().find(name)->matrix();
  }

  // Of the mean loss, which is written down on the way, or as it is given.
  Values logits_gradient(GptOutcome& out) const {
    if (pass_.targets.empty()) return pass_.grad_output;
    LayerPass loss;
    loss.layer = ApplyLayer::kCrossEntropy;
    loss.input = out.logits;
    loss.ids = pass_.targets;
    loss.grad_output = loss_gradient(Values({1}, {1.0}), loss.ids, LossReduction::kMean);
    LayerOutcome found = kernel_pass(run_, loss);
    out.loss = reduced_loss(found.output, loss.ids, LossReduction::kMean);
    return pass_.grad_output.absent() ? found.dinput : pass_.grad_output;
  }

  void backward(const FloatMatrix& dlogits, const FloatMatrix& normed, GptOutcome& out) {
    const Index width = config_.n_embd;
    FloatMatrix dhead(config_.vocab_size, width), dx(normed.rows(), width);
    kernels::matmul(run_, dlogits.view(), kernels::Right::plain(head_), dx.view(), {});
    kernels::matmul_transposed_accumulate(run_, dlogits.view(), normed.view(), dhead.view());
    stack_.grad_output = dx.values(stack_.input.shape());
    LayerOutcome found = kernel_pass(run_, stack_);
    for (auto& [name, gradient] : found.gradients) {
      out.gradients[std::string(kPrefix) + name] = std::move(gradient);
    }
    FloatMatrix dwte(wte_.dim(0), width), dwpe(wpe_.dim(0), width);
    kernels::embedding_backward(run_, tokens_, FloatMatrix(found.dinput).view(), dwte.view(),
                                dwpe.view());
    const Values of_tokens = dwte.values({wte_.dim(0), width});
    const Values of_head = dhead.values({config_.vocab_size, width});
    out.gradients[kPositionEmbedding] = dwpe.values({wpe_.dim(0), width});
    if (config_.tie_word_embeddings) {
      out.gradients[kTokenEmbedding] = reference::add(of_head, of_tokens);
    } else {
      out.gradients[kTokenEmbedding] = of_tokens;
      out.gradients["lm_head.weight"] = of_head;
    }
  }

  const Runtime& run_;
  const GptConfig& config_;
  const GptPass& pass_;
  TokenMatrix tokens_;
  ConstMatrix wte_, wpe_, head_;  // [V, C], [P, C], [V, C]
  LayerPass stack_;
};

}  // namespace

GptOutcome gpt_by_kernels(const Runtime& run, Gpt& model, const GptPass& pass) {
  const bool masked = !pass.mask.added.absent() || !pass.mask.key_padding.absent();
  if (masked || !pass.grad_output.absent()) return LayerByLayer(run, model, pass).run();
  return by_model(run, model, pass);
}

reference::GptOptions textbook_options(const GptConfig& config) {
  reference::GptSettings settings;
  settings.n_layer = config.n_layer;
  settings.n_head = config.n_head;
  settings.norm = textbook_norm(config.norm);
  settings.activation = textbook_activation(config.activation);
  settings.eps = config.layer_norm_epsilon;
  settings.tied = config.tie_word_embeddings;
  auto options = reference::gpt_options(settings);
  for (std::size_t layer = 0; layer < options.h.size(); ++layer) {
    options.h[layer].attn.core.scale = config.attention_scale(static_cast<Index>(layer));
  }
  return options;
}

GptOutcome gpt_by_textbook(const GptConfig& config, const ParameterValues& parameters,
                           const GptPass& pass) {
  const auto p = reference::from_map(parameters, config.n_layer);
  const reference::GptOptions options = textbook_options(config);
  const reference::Tokens tokens({pass.batch, pass.time}, pass.tokens);
  GptOutcome out;
  const Values logits = reference::gpt(tokens, p, options, pass.mask);
  out.logits = logits.reshaped({logits.rows(), logits.columns()});
  Values dlogits;
  if (!pass.targets.empty()) {
    const reference::Tokens targets({pass.batch, pass.time}, pass.targets);
    out.loss =
        reduced_loss(reference::cross_entropy(logits, targets), pass.targets, LossReduction::kMean);
    const Values each = loss_gradient(Values({1}, {1.0}), pass.targets, LossReduction::kMean);
    dlogits = reference::cross_entropy_backward(logits, targets, each[0]);
  }
  if (!pass.grad_output.absent()) dlogits = pass.grad_output.reshaped(logits.shape());
  if (dlogits.absent()) return out;
  out.gradients =
      reference::to_map(reference::gpt_backward(dlogits, tokens, p, options, pass.mask));
  return out;
}

}  // namespace prenorm
