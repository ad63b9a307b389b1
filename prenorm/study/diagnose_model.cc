#include "prenorm/study/diagnose_model.h"

#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "prenorm/base/error.h"
#include "prenorm/base/utf8.h"
#include "prenorm/model/checkpoint.h"
#include "prenorm/model/model_source.h"
#include "prenorm/model/parameter_layout.h"
#include "prenorm/study/textbook_pass.h"

namespace prenorm {
namespace {

void check_finite(const std::string& file, const std::string& name, const Floats& tensor) {
  for (const float x : tensor) {
    if (std::isfinite(x)) continue;
    throw FormatError(printable(file) + ": tensor '" + printable(name) +
                      "': expected finite weights, found NaN or infinity");
  }
}

std::unique_ptr<Gpt> checked_model(const std::filesystem::path& path, const ModelSource& source) {
  try {
    return model_from_weights(source.config, source.weights, Gpt::Mode::kInference);
  } catch (const ConfigError& error) {  // the folder's fault, not a flag's
    throw FormatError(printable(path.string()) + ": " + error.what());
  }
}

}  // namespace

Index DiagnoseModel::width() const {
  return parameters.h.empty() ? parameters.embedding.wte.columns()
                              : parameters.h.front().mlp.c_fc.weight.rows();
}

Index DiagnoseModel::inner() const {
  return parameters.h.empty() ? 0 : parameters.h.front().mlp.c_fc.weight.columns();
}

Index DiagnoseModel::vocabulary() const { return has_head ? parameters.embedding.wte.rows() : 0; }

reference::GptOptions DiagnoseModel::options() const {
  reference::GptOptions options = reference::gpt_options(settings);
  for (std::size_t l = 0; l < options.h.size(); ++l) {
    options.h[l].attn.core.causal = causal;
    options.h[l].attn.core.scale = scales.at(l);
  }
  if (!has_final_norm) options.mistakes.final_norm_calls = 0;
  return options;
}

DiagnoseModel read_diagnose_model(const std::filesystem::path& path, const SourceHints& hints) {
  const ModelSource source = read_model_source(path, hints);
  const std::unique_ptr<Gpt> gpt = checked_model(path, source);
  const GptConfig& config = gpt->config();
  DiagnoseModel model;
  model.settings.n_layer = config.n_layer;
  model.settings.n_head = config.n_head;
  model.settings.norm = textbook_norm(config.norm);
  model.settings.activation = textbook_activation(config.activation);
  model.settings.eps = config.layer_norm_epsilon;
  model.settings.tied = config.tie_word_embeddings;
  for (Index l = 0; l < config.n_layer; ++l) {
    // A plain 1/√D stays unsaid, so that a mistake may stand in its place.
    const bool plain = config.scale_attn_weights && !config.scale_attn_by_inverse_layer_idx;
    model.scales.push_back(plain ? std::nullopt : std::optional(config.attention_scale(l)));
  }
  model.parameters.h.resize(static_cast<std::size_t>(config.n_layer));
  reference::for_each_parameter(model.parameters, [&](const std::string& name, Floats& tensor) {
    const Parameter* p = gpt->parameters().find(name);
    if (p == nullptr) return;
    tensor = Floats(p->shape, {p->value.begin(), p->value.end()});
    check_finite(source.weights.name(), name, tensor);
  });
  return model;
}

DiagnoseModel diagnose_block_model(const TensorFile& file, const ApplyOptions& options,
                                   Index width) {
  if (options.heads < 1) {
    throw ConfigError("--heads: expected the number of heads of the block, found none");
  }
  if (width % options.heads != 0) {
    throw ConfigError("--heads: expected a number that divides the width " + std::to_string(width) +
                      ", found " + std::to_string(options.heads));
  }
  bool stack = false;
  for (const Tensor& t : file.tensors()) {
    stack = stack || t.name.starts_with("layers.") || t.name.starts_with("h.") ||
            t.name.find(".layers.") != std::string::npos;
  }
  const ParameterLayout layout(stack ? LayerKind::kStack : LayerKind::kBlock, file, width);
  const ParameterValues values = layout.read();
  DiagnoseModel model;
  model.settings.n_layer = layout.layers();
  model.settings.n_head = options.heads;
  model.settings.norm = textbook_norm(options.norm);
  model.settings.activation = textbook_activation(options.activation);
  model.settings.eps = options.eps;
  model.causal = options.causal;
  model.scales.assign(static_cast<std::size_t>(layout.layers()), options.scale);
  model.has_embedding = model.has_head = false;
  model.has_final_norm = stack && layout.has_final_norm();
  model.parameters.h.resize(static_cast<std::size_t>(layout.layers()));
  reference::for_each_parameter(model.parameters, [&](const std::string& name, Floats& tensor) {
    const auto it = values.find(name.substr(std::string("transformer.").size()));
    if (it == values.end()) return;
    tensor = reference::cast<float>(it->second);
    check_finite(file.name(), it->first, tensor);
  });
  return model;
}

DiagnoseModel rounded(const DiagnoseModel& model, reference::Numbers numbers) {
  DiagnoseModel out = model;
  reference::for_each_parameter(out.parameters, [&](const std::string&, Floats& tensor) {
    for (float& x : tensor) {
      x = static_cast<float>(reference::round_to(static_cast<double>(x), numbers));
    }
  });
  return out;
}

}  // namespace prenorm
