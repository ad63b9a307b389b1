#include "prenorm/cli/apply.h"

#include <algorithm>
#include <optional>

#include "prenorm/base/error.h"
#include "prenorm/base/json.h"
#include "prenorm/base/suggest.h"
#include "prenorm/base/utf8.h"
#include "prenorm/cli/block_flags.h"
#include "prenorm/cli/common.h"
#include "prenorm/cli/message.h"
#include "prenorm/formats/tensor_file.h"
#include "prenorm/model/config_json.h"
#include "prenorm/study/apply.h"

namespace prenorm::cli {
namespace {

class Apply : public Verb {
 public:
  void declare(OptionTable& table) override {
    table.group("Input");
    table
        .texts("layer", layers_, "LAYER",
               "layer-norm, feed-forward, attention, block, stack, gpt, linear, activation, "
               "softmax, scaled-dot-product-attention, embedding or cross-entropy")
        .from_positionals();
    table.text("params", params_, "FILE",
               "parameters: safetensors or npz, of PyTorch's or GPT-2's names; of gpt a folder");
    table.text("input", input_, "FILE",
               "safetensors or npz with input, attn_mask, key_padding_mask, grad_output, …");
    table.group("Layer");
    block_.declare(table, options_);
    table.integer("axis", options_.axis, {-64, 63}, "of softmax");
    table
        .integer("normalized-axes", options_.normalized_axes, {0, 64},
                 "of a layer norm without weight: how many last axes it takes together")
        .shown_default("1");
    table
        .integer("padding-idx", padding_idx_, {0, kMostIds}, "of embedding: an id without gradient")
        .shown_default("none");
    table.integer("ignore-index", options_.ignore_index, {},
                  "of cross-entropy: targets that do not count");
    table.real("label-smoothing", options_.label_smoothing, {0.0, 1.0}, "of cross-entropy");
    table.choice("reduction", reduction_, {"mean", "sum", "none"}, "of cross-entropy");
    table.flag("reference", options_.reference,
               "compute with the textbook in double, and write F64");
    common_.declare_machine(table);
    table.group("Output");
    table.text("output", output_, "FILE",
               "safetensors with output (of gpt: logits, loss) and grad.NAME");
    common_.declare_output(table, "print one JSON object: the tensors written");
  }

  int run(const OptionTable& table, const Streams& streams) override {
    const ApplyLayer layer = read_options(table);
    const TensorFile inputs = read_tensors(input_);
    const Runtime run(common_.runtime());
    std::vector<Tensor> tensors;
    if (layer == ApplyLayer::kGpt) {
      check_model_options(table);
      tensors = apply_gpt(run, options_, params_, inputs);
    } else {
      std::optional<TensorFile> parameters;
      if (!params_.empty()) parameters = read_tensors(params_);
      tensors = apply(run, layer, options_, parameters ? &*parameters : nullptr, inputs);
    }
    save_safetensors(output_, tensors);
    report(tensors, streams);
    return kDone;
  }

 private:
  static constexpr Index kMostIds = (Index{1} << 31) - 1;

  ApplyLayer read_options(const OptionTable& table) {
    if (layers_.size() != 1) {
      throw ConfigError("layer: expected one layer's name, found " +
                        std::to_string(layers_.size()));
    }
    const auto layer = apply_layer_from_name(layers_.front());
    if (!layer) {
      const auto names = apply_layer_names();
      const std::vector<std::string> known(names.begin(), names.end());
      std::string all;
      for (const std::string& name : known) all += (all.empty() ? "" : ", ") + name;
      throw ConfigError("layer: expected one of " + all + ", found " + in_quotes(layers_.front()) +
                        did_you_mean(layers_.front(), known));
    }
    require_given(input_, "--input", "a safetensors or npz file");
    require_given(output_, "--output", "a file to write");
    if (*layer == ApplyLayer::kGpt) require_given(params_, "--params", "a model folder");
    for (const char* extension : {".npz", ".npy"}) {
      if (!output_.ends_with(extension)) continue;
      throw ConfigError("--output: expected a safetensors file, found " + in_quotes(output_));
    }
    block_.read(table, options_);
    if (table.given("padding-idx")) options_.padding_idx = padding_idx_;
    options_.reduction = reduction_ == "mean"  ? LossReduction::kMean
                         : reduction_ == "sum" ? LossReduction::kSum
                                               : LossReduction::kNone;
    return *layer;
  }

  GptConfig model_config() const {
    try {
      return load_config(params_);
    } catch (const ConfigError& error) {  // the folder's fault, not a flag's
      throw FormatError(printable(params_) + ": " + error.what());
    }
  }

  // A model says itself what it is; flags may repeat it.
  void check_model_options(const OptionTable& table) const {
    const GptConfig config = model_config();
    const auto check = [&](const char* flag, bool same, const std::string& model) {
      if (!table.given(flag) || same) return;
      throw ConfigError(std::string("--") + flag + ": expected " + model +
                        ", as the model's config.json says, found another");
    };
    check("heads", options_.heads == config.n_head, std::to_string(config.n_head));
    check("norm", options_.norm == config.norm, std::string(norm_placement_name(config.norm)));
    check("activation", options_.activation == config.activation,
          std::string(activation_name(config.activation)));
    check("eps", options_.eps == config.layer_norm_epsilon, number_text(config.layer_norm_epsilon));
    check("causal", options_.causal, "a causal model");
  }

  void report(const std::vector<Tensor>& tensors, const Streams& streams) const {
    if (common_.json) {
      Json list = Json::array();
      for (const Tensor& t : tensors) {
        list.push_back(
            {{"name", t.name}, {"dtype", std::string(dtype_name(t.dtype))}, {"shape", t.shape}});
      }
      streams.out.write(dump_json_compact({{"output", output_}, {"tensors", list}}) + "\n");
      return;
    }
    std::size_t width = 0;
    for (const Tensor& t : tensors) width = std::max(width, printable(t.name).size());
    for (const Tensor& t : tensors) {
      streams.out.print("{:<{}}  {}  {}\n", printable(t.name), width, dtype_name(t.dtype),
                        shape_text(t.shape));
    }
  }

  std::vector<std::string> layers_;
  std::string params_, input_, output_;
  BlockFlags block_;
  std::string reduction_ = "mean";
  Index padding_idx_ = 0;
  ApplyOptions options_;
  CommonFlags common_;
};

}  // namespace

std::unique_ptr<Verb> make_apply() { return std::make_unique<Apply>(); }

}  // namespace prenorm::cli
