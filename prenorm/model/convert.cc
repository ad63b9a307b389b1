#include "prenorm/model/convert.h"

#include <fmt/format.h>

#include <cstring>
#include <map>
#include <memory>
#include <utility>

#include "prenorm/base/error.h"
#include "prenorm/base/file.h"
#include "prenorm/base/json.h"
#include "prenorm/formats/cast.h"
#include "prenorm/formats/torch_writer.h"
#include "prenorm/model/checkpoint.h"
#include "prenorm/model/config_json.h"

namespace prenorm {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "transformer.";
constexpr const char* kHead = "lm_head.weight";
constexpr const char* kTokenEmbedding = "transformer.wte.weight";

Tensor out_in(const Tensor& t) {
  const std::size_t width = dtype_size(t.dtype);
  const auto rows = static_cast<std::size_t>(t.shape[0]);
  const auto columns = static_cast<std::size_t>(t.shape[1]);
  const auto bytes = std::make_shared<std::vector<std::byte>>(t.bytes.size());
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < columns; ++c) {
      std::memcpy(bytes->data() + (c * rows + r) * width,
                  t.bytes.data() + (r * columns + c) * width, width);
    }
  }
  return {t.name, t.dtype, {t.shape[1], t.shape[0]}, *bytes, bytes};
}

bool is_block_matrix(const Tensor& t) {
  return t.shape.size() == 2 && t.name.starts_with("transformer.h.");
}

std::string_view config_dtype(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF64:
      return "float64";
    case Dtype::kF16:
      return "float16";
    case Dtype::kBF16:
      return "bfloat16";
    default:
      return "float32";
  }
}

// The model's parameters in Hugging Face's layout, and biases of zero where it has none.
std::vector<Tensor> parameters_of(const ModelSource& source, const Gpt& model,
                                  const std::optional<Dtype>& dtype,
                                  std::vector<std::string>& notices) {
  std::map<std::string, const Tensor*> by_name;
  for (const Tensor& t : source.weights.tensors()) by_name[full_parameter_name(t.name)] = &t;
  std::vector<Tensor> out;
  for (const Parameter& p : model.parameters()) {
    Tensor t = *by_name.at(p.name);
    t.name = p.name;
    if (!dtype || *dtype == t.dtype) {
      out.push_back(std::move(t));
      continue;
    }
    out.push_back(cast_tensor(t, *dtype));
    if (const Index lost = count_infinite(out.back()) - count_infinite(t); lost > 0) {
      notices.push_back(
          fmt::format("warning: {}: {} of {} numbers are too large for {} and are now "
                      "infinite",
                      p.name, lost, t.size(), config_dtype(*dtype)));
    }
  }
  return out;
}

// Biases of zero, as Hugging Face's GPT-2 always has biases.
void add_zero_biases(std::vector<Tensor>& tensors) {
  const std::size_t count = tensors.size();
  for (std::size_t i = 0; i < count; ++i) {
    const std::string name = tensors[i].name;
    if (!name.starts_with("transformer.h.") && !name.starts_with("transformer.ln_f.")) continue;
    Tensor bias{name.substr(0, name.size() - std::string_view("weight").size()) + "bias",
                tensors[i].dtype,
                {tensors[i].shape.back()},
                {},
                nullptr};
    const auto bytes = std::make_shared<std::vector<std::byte>>(
        static_cast<std::size_t>(bias.size()) * dtype_size(bias.dtype));
    bias.bytes = *bytes;
    bias.owner = bytes;
    tensors.push_back(std::move(bias));
  }
}

void write_hf(const ModelSource& source, std::vector<Tensor> tensors, const fs::path& folder) {
  const Dtype dtype = tensors.front().dtype;
  if (!source.config.bias) add_zero_biases(tensors);
  save_safetensors(folder / "model.safetensors", std::move(tensors));
  Json config = Json::parse(config_text(source.config));
  config["dtype"] = config_dtype(dtype);
  write_file_durably(folder / "config.json", dump_json(config));
  const fs::path generation = source.folder / "generation_config.json";
  write_file_durably(folder / "generation_config.json",
                     file_exists(generation) ? read_regular_file(generation)
                                             : generation_config_text(source.config));
}

void require(bool holds, const std::string& what, const std::string& found) {
  if (!holds) throw ConfigError("--layout: expected a model with " + what + ", found " + found);
}

// What nanoGPT's code computes whatever its file says.
void check_nanogpt(const GptConfig& c) {
  require(c.norm == NormPlacement::kPre, "pre-norm, as nanoGPT's is", "post-norm");
  require(c.tie_word_embeddings, "a tied head, as nanoGPT's is", "an untied one");
  require(c.layer_norm_epsilon == 1e-5, "epsilon 1e-5, as nanoGPT's is", "another");
  require(c.feed_forward_width() == 4 * c.n_embd, "n_inner 4 n_embd, as nanoGPT's is", "another");
  require(c.scale_attn_weights && !c.scale_attn_by_inverse_layer_idx,
          "scores scaled by 1 / sqrt(D), as nanoGPT's are", "another scale");
  require(c.activation != Activation::kRelu, "GELU, as nanoGPT's is", "relu");
}

void write_nanogpt(const GptConfig& c, const std::vector<Tensor>& tensors, const fs::path& folder) {
  check_nanogpt(c);
  TorchWriter out;
  out.begin_dict("model");
  std::vector<Tensor> written;  // their bytes stay until save()
  for (const Tensor& t : tensors) {
    written.push_back(is_block_matrix(t) ? out_in(t) : t);
    out.add(written.back());
    if (t.name != kTokenEmbedding) continue;
    Tensor head = t;
    head.name = kHead;
    out.add(head);
  }
  out.end_dict();
  out.begin_dict("model_args");
  out.add("n_layer", c.n_layer);
  out.add("n_head", c.n_head);
  out.add("n_embd", c.n_embd);
  out.add("block_size", c.block_size);
  out.add("bias", c.bias);
  out.add("vocab_size", c.vocab_size);
  out.add("dropout", c.resid_pdrop);
  out.end_dict();
  out.begin_dict("config");
  out.end_dict();
  out.add("iter_num", Index{0});
  out.add("best_val_loss", 1e9);
  out.begin_dict("prenorm");
  out.add("activation_function", std::string(activation_name(c.activation)));
  out.end_dict();
  out.save(folder / "ckpt.pt");
}

// "transformer.h.3.attn.c_attn.weight" as "layers.3.self_attn.in_proj_weight".
std::string torch_name(std::string name) {
  static constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"attn.c_attn.", "self_attn.in_proj_"},
      {"attn.c_proj.", "self_attn.out_proj."},
      {"mlp.c_fc.", "linear1."},
      {"mlp.c_proj.", "linear2."},
      {"ln_1.", "norm1."},
      {"ln_2.", "norm2."},
      {"ln_f.", "norm."}};
  if (name.starts_with(kPrefix)) name.erase(0, kPrefix.size());
  if (name.starts_with("h.")) name.replace(0, 1, "layers");
  for (const auto& [ours, theirs] : kNames) {
    const std::size_t at = name.find(ours);
    if (at != std::string::npos) return name.replace(at, ours.size(), theirs);
  }
  return name;
}

void write_torch(const std::vector<Tensor>& tensors, const fs::path& folder) {
  TorchWriter out;
  std::vector<Tensor> written;
  for (const Tensor& t : tensors) {
    written.push_back(is_block_matrix(t) ? out_in(t) : t);
    written.back().name = torch_name(t.name);
    out.add(written.back());
  }
  out.save(folder / "model.pt");
}

void copy_tokenizer(const fs::path& from, const fs::path& to) {
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt",
                           "special_tokens_map.json", "added_tokens.json"}) {
    std::error_code error;
    if (!fs::is_regular_file(from / name, error)) continue;
    if (fs::equivalent(from / name, to / name, error)) continue;
    write_file_durably(to / name, read_regular_file(from / name));
  }
}

}  // namespace

std::optional<WeightLayout> weight_layout_from_name(std::string_view name) {
  if (name == "hf") return WeightLayout::kHf;
  if (name == "nanogpt") return WeightLayout::kNanoGpt;
  if (name == "torch") return WeightLayout::kTorch;
  return std::nullopt;
}

std::vector<std::string> convert_model(const fs::path& from, const fs::path& folder,
                                       const ConvertOptions& options) {
  const ModelSource source = read_model_source(from, options.hints);
  const auto model = model_from_weights(source.config, source.weights, Gpt::Mode::kInference);
  std::vector<std::string> notices;
  std::vector<Tensor> tensors = parameters_of(source, *model, options.dtype, notices);
  if (options.layout == WeightLayout::kNanoGpt) check_nanogpt(source.config);
  ensure_directory(folder);
  switch (options.layout) {
    case WeightLayout::kHf:
      write_hf(source, std::move(tensors), folder);
      break;
    case WeightLayout::kNanoGpt:
      write_nanogpt(source.config, tensors, folder);
      if (source.config.activation == Activation::kGeluTanh) {
        notices.emplace_back(
            "nanoGPT computes GELU with erf, the model with tanh: its outputs "
            "will differ slightly");
      }
      break;
    case WeightLayout::kTorch:
      write_torch(tensors, folder);
      break;
  }
  copy_tokenizer(source.folder, folder);
  return notices;
}

}  // namespace prenorm
