#include "prenorm/model/bert_checkpoint.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "prenorm/base/error.h"
#include "prenorm/base/utf8.h"
#include "prenorm/formats/safetensors.h"
#include "prenorm/model/tensor_misfits.h"

namespace prenorm {
namespace {

constexpr std::string_view kPrefix = "bert.";

// The name without its prefix, and as it is written today.
std::string canonical_name(std::string name) {
  if (name.starts_with(kPrefix)) name.erase(0, kPrefix.size());
  for (const auto& [old, current] : {std::pair(std::string_view(".gamma"), ".weight"),
                                     std::pair(std::string_view(".beta"), ".bias")}) {
    if (name.ends_with("LayerNorm" + std::string(old))) {
      name.replace(name.size() - old.size(), old.size(), current);
    }
  }
  return name;
}

bool passed_over(std::string_view name) {
  for (const std::string_view head : {"cls.", "classifier.", "qa_outputs."}) {
    if (name.starts_with(head)) return true;
  }
  return name == "embeddings.position_ids" || name == "embeddings.token_type_ids";
}

// Where a tensor of the file goes.
struct Target {
  std::string name;       // in the file, canonical
  std::string parameter;  // ours
  std::vector<Index> shape;
  bool transposed = false;  // the file has [out, in]
  Index first_column = 0;   // of the parameter, or first element of a vector
};

class Layout {
 public:
  explicit Layout(const BertConfig& config) : width_(config.hidden_size) {
    const std::string e = "embeddings.";
    plain(e + "word_embeddings.weight", e + "wte.weight", {config.vocab_size, width_});
    plain(e + "position_embeddings.weight", e + "wpe.weight",
          {config.max_position_embeddings, width_});
    plain(e + "token_type_embeddings.weight", e + "wtte.weight", {config.type_vocab_size, width_});
    norm(e + "LayerNorm", e + "LayerNorm");
    for (Index l = 0; l < config.num_hidden_layers; ++l) {
      const std::string layer = "encoder.layer." + std::to_string(l) + ".";
      const std::string attention = layer + "attention.";
      Index column = 0;
      for (const char* part : {"query", "key", "value"}) {
        linear(attention + "self." + part, layer + "attn.c_attn", width_, width_, column);
        column += width_;
      }
      linear(attention + "output.dense", layer + "attn.c_proj", width_, width_);
      norm(attention + "output.LayerNorm", layer + "ln_1");
      linear(layer + "intermediate.dense", layer + "mlp.c_fc", width_, config.intermediate_size);
      linear(layer + "output.dense", layer + "mlp.c_proj", config.intermediate_size, width_);
      norm(layer + "output.LayerNorm", layer + "ln_2");
    }
    if (config.add_pooling_layer) linear("pooler.dense", "pooler.dense", width_, width_);
  }

  const std::vector<Target>& targets() const { return targets_; }

 private:
  void plain(std::string name, std::string parameter, std::vector<Index> shape) {
    targets_.push_back({std::move(name), std::move(parameter), std::move(shape)});
  }
  void norm(const std::string& name, const std::string& parameter) {
    for (const char* part : {".weight", ".bias"}) plain(name + part, parameter + part, {width_});
  }
  void linear(const std::string& name, const std::string& parameter, Index in, Index out,
              Index column = 0) {
    targets_.push_back({name + ".weight", parameter + ".weight", {out, in}, true, column});
    targets_.push_back({name + ".bias", parameter + ".bias", {out}, false, column});
  }

  Index width_;
  std::vector<Target> targets_;
};

class Loader {
 public:
  explicit Loader(const Safetensors& file) : file_(file) {
    for (const Tensor& t : file.tensors()) {
      const std::string name = canonical_name(t.name);
      if (passed_over(name)) continue;
      if (!tensors_.emplace(name, &t).second) {
        throw FormatError(file.name() + ": tensor '" + printable(t.name) +
                          "': expected one tensor of this name, found another with or without "
                          "'bert.'");
      }
    }
  }

  bool has(const std::string& name) const { return tensors_.contains(name); }

  // Compares all names and shapes before memory is taken for a model.
  void match(const Layout& layout) {
    TensorMisfits misfits;
    auto rest = tensors_;
    for (const Target& target : layout.targets()) {
      const auto it = rest.find(target.name);
      if (it == rest.end()) {
        misfits.missing.push_back(target.name);
        continue;
      }
      misfits.check(*it->second, target.shape);
      rest.erase(it);
    }
    for (const auto& [name, t] : rest) misfits.unexpected.push_back(printable(t->name));
    misfits.throw_if_any(file_.name());
  }

  void read(const Target& target, const Parameter& parameter) const {
    const std::vector<float> values = file_.floats(*tensors_.at(target.name));
    const auto column = static_cast<std::size_t>(target.first_column);
    if (!target.transposed) {
      std::ranges::copy(values, parameter.value.begin() + target.first_column);
      return;
    }
    const auto out = static_cast<std::size_t>(target.shape[0]);
    const auto in = static_cast<std::size_t>(target.shape[1]);
    const auto stride = static_cast<std::size_t>(parameter.shape[1]);
    for (std::size_t o = 0; o < out; ++o) {
      for (std::size_t i = 0; i < in; ++i) {
        parameter.value[i * stride + column + o] = values[o * in + i];
      }
    }
  }

 private:
  const Safetensors& file_;
  std::map<std::string, const Tensor*> tensors_;  // by canonical name
};

}  // namespace

std::unique_ptr<Bert> load_bert(const std::filesystem::path& folder) {
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    throw IoError(folder.string() + ": expected a model folder, found " +
                  (std::filesystem::exists(folder, error) ? "a file" : "no such folder"));
  }
  BertConfig config = load_bert_config(folder);
  const Safetensors file(folder / "model.safetensors");
  // So that a config of many layers takes no memory for the list of their names.
  if (config.num_hidden_layers > static_cast<Index>(file.tensors().size())) {
    throw FormatError(file.name() + ": expected " + std::to_string(config.num_hidden_layers) +
                      " layers, as config.json says, found " +
                      std::to_string(file.tensors().size()) + " tensors");
  }
  Loader loader(file);
  config.add_pooling_layer = loader.has("pooler.dense.weight") || loader.has("pooler.dense.bias");
  const Layout layout(config);
  loader.match(layout);
  auto model = std::make_unique<Bert>(config);
  for (const Target& target : layout.targets()) {
    const Parameter* parameter = model->parameters().find(target.parameter);
    if (parameter == nullptr) throw Error("Bert: expected a parameter " + target.parameter);
    loader.read(target, *parameter);
  }
  return model;
}

}  // namespace prenorm
