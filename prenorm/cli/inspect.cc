#include "prenorm/cli/inspect.h"

#include <algorithm>

#include "prenorm/base/error.h"
#include "prenorm/base/json.h"
#include "prenorm/base/utf8.h"
#include "prenorm/cli/common.h"
#include "prenorm/cli/format.h"
#include "prenorm/formats/safetensors.h"
#include "prenorm/model/config_json.h"
#include "prenorm/study/inspect.h"
#include "prenorm/train/state.h"

namespace prenorm::cli {
namespace {

class Inspect : public Verb {
 public:
  void declare(OptionTable& table) override {
    table.group("Input");
    table.texts("model", paths_, "PATH", "model folder or file of tensors")
        .short_name('m')
        .from_positionals();
    table.group("Output");
    table.toggle("tensors", tensors_, "list every tensor");
    common_.declare_output(table, "print one JSON object");
  }

  int run(const OptionTable&, const Streams& streams) override {
    if (paths_.size() != 1) {
      throw ConfigError("-m: expected one model folder or file of tensors, found " +
                        std::to_string(paths_.size()));
    }
    Inspection found = inspect(paths_.front());
    check_state(found);
    if (common_.json) {
      streams.out.write(dump_json(to_json(found)));
    } else {
      print(found, streams.out);
    }
    streams.out.flush();
    for (const std::string& warning : found.warnings) streams.log.print("warning: {}\n", warning);
    return kDone;
  }

 private:
  // A run's state that cannot be read is no fault of the model: a warning.
  void check_state(Inspection& found) const {
    if (!found.config || !has_training_state(paths_.front())) return;
    try {
      static_cast<void>(read_training_state_summary(paths_.front()));
    } catch (const Error& error) {
      found.warnings.emplace_back(error.what());
    }
  }

  void print(const Inspection& found, Output& out) const;
  Json to_json(const Inspection& found) const;

  std::vector<std::string> paths_;
  bool tensors_ = true;
  CommonFlags common_;
};

void print_tensors(const Inspection& found, Output& out) {
  std::size_t name_width = 6, shape_width = 5;
  for (const TensorSummary& tensor : found.tensors) {
    name_width = std::max(name_width, std::min<std::size_t>(printable(tensor.name).size(), 60));
    shape_width = std::max(shape_width, shape_text(tensor.shape).size());
  }
  out.print("{:<{}}  {:<5}  {:<{}}  {:>12}  {:>10}  {:>10}  {:>10}  {:>10}\n", "tensor", name_width,
            "dtype", "shape", shape_width, "elements", "mean", "std", "min", "max");
  for (const TensorSummary& tensor : found.tensors) {
    out.print("{:<{}}  {:<5}  {:<{}}  {:>12}", printable(tensor.name), name_width,
              dtype_name(tensor.dtype), shape_text(tensor.shape), shape_width,
              grouped(tensor.elements));
    if (tensor.has_statistics) {
      out.print("  {:>10.3g}  {:>10.3g}  {:>10.3g}  {:>10.3g}", tensor.mean, tensor.deviation,
                tensor.minimum, tensor.maximum);
    }
    if (tensor.nans + tensor.infinities > 0) {
      out.print("  {} NaN, {} infinite", grouped(tensor.nans), grouped(tensor.infinities));
    }
    out.write("\n");
  }
  out.write("\n");
}

void Inspect::print(const Inspection& found, Output& out) const {
  if (tensors_) print_tensors(found, out);
  out.print("weights     {}\n", printable(found.weights_file, 200));
  out.print("parameters  {} in {} tensors, {} in the file\n", grouped(found.parameters),
            found.tensors.size(), bytes_text(found.tensor_bytes));
  if (!found.config) return;
  const GptConfig& config = *found.config;
  out.print(
      "model       {} layers, {} heads, width {}, feed-forward {}, context {}, vocabulary {}\n",
      config.n_layer, config.n_head, config.n_embd, config.feed_forward_width(), config.block_size,
      grouped(config.vocab_size));
  out.print("            {}-norm, {}, epsilon {}, {} biases, {} head\n",
            norm_placement_name(config.norm), activation_name(config.activation),
            config.layer_norm_epsilon, config.bias ? "with" : "without",
            config.tie_word_embeddings ? "tied" : "untied");
  out.print("tokenizer   {}\n", found.tokenizer.empty() ? "none" : found.tokenizer);
  out.print(
      "memory      {} of weights, {} of keys and values for a full context, {} of activations\n",
      bytes_text(found.cost->weight_bytes), bytes_text(found.cost->cache_bytes),
      bytes_text(found.cost->workspace_bytes));
  out.print("arithmetic  {} for a full context, {} a token\n",
            flops_text(found.cost->forward_flops),
            flops_text(found.cost->forward_flops / static_cast<double>(config.block_size)));
}

Json Inspect::to_json(const Inspection& found) const {
  Json tensors = Json::array();
  for (const TensorSummary& tensor : found.tensors) {
    Json row = {{"name", to_valid_utf8(tensor.name)},
                {"dtype", dtype_name(tensor.dtype)},
                {"shape", tensor.shape},
                {"elements", tensor.elements},
                {"bytes", tensor.bytes}};
    if (tensor.has_statistics) {
      row["min"] = tensor.minimum;
      row["max"] = tensor.maximum;
      row["mean"] = tensor.mean;
      row["std"] = tensor.deviation;
    }
    row["nan"] = tensor.nans;
    row["inf"] = tensor.infinities;
    tensors.push_back(std::move(row));
  }
  Json out = {{"weights", found.weights_file},
              {"parameters", found.parameters},
              {"bytes", found.tensor_bytes}};
  if (found.config) {
    out["config"] = Json::parse(config_text(*found.config));
    out["tokenizer"] = found.tokenizer.empty() ? Json(nullptr) : Json(found.tokenizer);
    out["memory"] = {{"weights", found.cost->weight_bytes},
                     {"cache", found.cost->cache_bytes},
                     {"activations", found.cost->workspace_bytes}};
    out["forward_flops"] = found.cost->forward_flops;
  }
  out["warnings"] = found.warnings;
  if (tensors_) out["tensors"] = std::move(tensors);
  return out;
}

}  // namespace

std::unique_ptr<Verb> make_inspect() { return std::make_unique<Inspect>(); }

}  // namespace prenorm::cli
