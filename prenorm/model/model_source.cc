#include "prenorm/model/model_source.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "prenorm/base/checked.h"
#include "prenorm/base/error.h"
#include "prenorm/base/file.h"
#include "prenorm/base/json.h"
#include "prenorm/base/utf8.h"
#include "prenorm/formats/safetensors.h"
#include "prenorm/formats/sharded.h"
#include "prenorm/formats/torch_file.h"
#include "prenorm/model/config_json.h"

namespace prenorm {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "transformer.";
constexpr std::string_view kEmbedding = "wte.weight";
constexpr const char* kHead = "lm_head.weight";
constexpr TokenId kGpt2EndOfText = 50256;

TensorFile read_one_safetensors(const fs::path& path) {
  const auto file = std::make_shared<const Safetensors>(path);
  return TensorFile(path.string(), file->tensors(), file);
}

[[noreturn]] void refuse(const std::string& file, std::string_view what, std::string_view expected,
                         std::string_view found) {
  throw FormatError(file + ": " + std::string(what) + ": expected " + std::string(expected) +
                    ", found " + std::string(found));
}

// What stands before "transformer.wte.weight" or "wte.weight" in a file's names.
std::string prefix_of(const std::vector<Tensor>& tensors, std::string_view container) {
  for (const Tensor& t : tensors) {
    if (!t.name.starts_with(container) || !t.name.ends_with(kEmbedding)) continue;
    std::string prefix = t.name.substr(0, t.name.size() - kEmbedding.size());
    if (prefix.ends_with(kPrefix)) prefix.resize(prefix.size() - kPrefix.size());
    if (prefix.empty() || prefix.ends_with('.')) return prefix;
  }
  return std::string(container);
}

Tensor transposed_tensor(const Tensor& t) {
  const auto width = dtype_size(t.dtype);
  const auto rows = static_cast<std::size_t>(t.shape[0]),
             columns = static_cast<std::size_t>(t.shape[1]);
  const auto bytes = std::make_shared<std::vector<std::byte>>(t.bytes.size());
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < columns; ++c) {
      std::memcpy(bytes->data() + (c * rows + r) * width,
                  t.bytes.data() + (r * columns + c) * width, width);
    }
  }
  return {t.name, t.dtype, {t.shape[1], t.shape[0]}, *bytes, bytes};
}

bool is_block_matrix(std::string_view name) {
  return name.starts_with("transformer.h.") &&
         std::ranges::any_of(std::array{".attn.c_attn.weight", ".attn.c_proj.weight",
                                        ".mlp.c_fc.weight", ".mlp.c_proj.weight"},
                             [&](const char* end) { return name.ends_with(end); });
}

// A state dict on its way into Hugging Face's names and layout.
class StateDict {
 public:
  StateDict(std::string name, std::vector<Tensor> tensors, std::string_view container)
      : name_(std::move(name)) {
    const std::string prefix = prefix_of(tensors, container);
    for (Tensor& t : tensors) {
      if (!t.name.starts_with(container)) continue;  // an optimizer's
      if (t.name.starts_with(prefix)) {
        t.name = full_parameter_name(t.name.substr(prefix.size()));
      }
      tensors_.push_back(std::move(t));
    }
    for (std::size_t i = 0; i < tensors_.size(); ++i) index_.emplace(tensors_[i].name, i);
    const Tensor& packed = require("transformer.h.0.attn.c_attn.weight", 2);
    out_in_ = packed.shape[0] == 3 * packed.shape[1];
    if (!out_in_) return;
    for (Tensor& t : tensors_) {
      if (is_block_matrix(t.name) && t.shape.size() == 2) t = transposed_tensor(t);
    }
  }

  bool is_out_in() const { return out_in_; }
  const Tensor* find(std::string_view name) const {
    const auto it = index_.find(std::string(name));
    return it == index_.end() ? nullptr : &tensors_[it->second];
  }
  const Tensor& require(std::string_view name, std::size_t rank) const {
    const Tensor* t = find(name);
    if (t == nullptr) {
      refuse(name_, "tensors", "'" + std::string(name) + "', as of GPT-2", "none of this name");
    }
    if (t->shape.size() != rank) {
      refuse(name_, t->name, "a matrix", printable(shape_text(t->shape)));
    }
    return *t;
  }

  // The sizes that the shapes tell.
  GptConfig config() const {
    GptConfig c;
    const Tensor& wte = require("transformer.wte.weight", 2);
    c.vocab_size = wte.shape[0];
    c.n_embd = wte.shape[1];
    c.block_size = require("transformer.wpe.weight", 2).shape[0];
    c.n_layer = 1;
    while (find("transformer.h." + std::to_string(c.n_layer) + ".attn.c_attn.weight") != nullptr) {
      ++c.n_layer;
    }
    c.n_inner = require("transformer.h.0.mlp.c_fc.weight", 2).shape[1];
    if (c.n_inner == 4 * c.n_embd) c.n_inner = 0;
    c.bias = find("transformer.ln_f.bias") != nullptr;
    const Tensor* head = find(kHead);
    c.tie_word_embeddings = head == nullptr || std::ranges::equal(head->bytes, wte.bytes);
    if (c.vocab_size > kGpt2EndOfText) c.bos_token_id = c.eos_token_id = kGpt2EndOfText;
    return c;
  }

  TensorFile take() { return TensorFile(name_, std::move(tensors_)); }

 private:
  std::string name_;
  std::vector<Tensor> tensors_;
  std::unordered_map<std::string, std::size_t> index_;
  bool out_in_ = false;
};

// minGPT writes what it trained beside the weights: {"model": {"n_head": …}, …}.
std::optional<Index> heads_beside(const fs::path& file) {
  const fs::path config = file.parent_path() / "config.json";
  std::error_code error;
  if (!fs::is_regular_file(config, error)) return std::nullopt;
  const Json json = parse_json(read_regular_file(config), config.string());
  if (!json.is_object() || !json.contains("model") || !json["model"].is_object()) {
    return std::nullopt;
  }
  const auto heads = json["model"].find("n_head");
  if (heads == json["model"].end() || !heads->is_number_unsigned()) return std::nullopt;
  return checked_cast<Index>(heads->get<std::uint64_t>());
}

class ModelArguments {
 public:
  explicit ModelArguments(const TorchFile& file) : file_(file) {}

  Index integer(const std::string& key) const {
    const TorchScalar* value = file_.scalar("model_args." + key);
    if (value == nullptr) refuse(file_.name(), "model_args." + key, "a whole number", "none");
    if (const auto* n = std::get_if<Index>(value)) return *n;
    refuse(file_.name(), "model_args." + key, "a whole number", "another value");
  }
  bool boolean(const std::string& key, bool otherwise) const {
    const TorchScalar* value = file_.scalar("model_args." + key);
    if (value == nullptr) return otherwise;
    if (const auto* truth = std::get_if<bool>(value)) return *truth;
    refuse(file_.name(), "model_args." + key, "True or False", "another value");
  }
  double real(const std::string& key, double otherwise) const {
    const TorchScalar* value = file_.scalar("model_args." + key);
    if (value == nullptr) return otherwise;
    if (const auto* x = std::get_if<double>(value)) return *x;
    if (const auto* n = std::get_if<Index>(value)) return static_cast<double>(*n);
    refuse(file_.name(), "model_args." + key, "a number", "another value");
  }

 private:
  const TorchFile& file_;
};

ModelSource read_nanogpt(const TorchFile& file, const fs::path& folder, const SourceHints& hints) {
  const ModelArguments arguments(file);
  StateDict weights(file.name(), file.tensors(), "model.");
  if (!weights.is_out_in()) {
    refuse(file.name(), "model", "matrices [out, in], as of nanoGPT", "[in, out]");
  }
  GptConfig c = weights.config();
  const Index inner = c.n_inner;
  c.n_layer = arguments.integer("n_layer");
  c.n_head = arguments.integer("n_head");
  c.n_embd = arguments.integer("n_embd");
  c.block_size = arguments.integer("block_size");
  c.vocab_size = arguments.integer("vocab_size");
  c.n_inner = inner;
  c.bias = arguments.boolean("bias", true);
  c.embd_pdrop = c.attn_pdrop = c.resid_pdrop = arguments.real("dropout", 0.0);
  c.tie_word_embeddings = true;
  c.activation = hints.activation.value_or(Activation::kGelu);
  // What our own writer says beside nanoGPT's keys.
  const TorchScalar* said = file.scalar("prenorm.activation_function");
  if (said != nullptr && !hints.activation) {
    const auto* name = std::get_if<std::string>(said);
    const auto known = name == nullptr ? std::nullopt : activation_from_name(*name);
    if (!known) refuse(file.name(), "prenorm.activation_function", "a known one", "another value");
    c.activation = *known;
  }
  return {c, weights.take(), folder};
}

ModelSource read_state_dict(const fs::path& path, TensorFile file, const SourceHints& hints) {
  StateDict weights(path.string(), file.tensors(), "");
  GptConfig c = weights.config();
  const std::optional<Index> heads = hints.n_head ? hints.n_head : heads_beside(path);
  if (!heads) {
    throw ConfigError("--n-head: expected the number of heads, which '" + printable(path.string()) +
                      "' does not tell, found none");
  }
  c.n_head = *heads;
  c.activation = hints.activation.value_or(Activation::kGeluTanh);
  const auto owner = std::make_shared<TensorFile>(std::move(file));
  TensorFile taken = weights.take();
  return {c, TensorFile(taken.name(), taken.tensors(), owner), path.parent_path()};
}

ModelSource read_file_source(const fs::path& path, const SourceHints& hints) {
  const MappedFile map(path);
  if (!is_torch_file(map.bytes())) return read_state_dict(path, read_tensors(path), hints);
  const TorchFile file(path);
  const bool nano = std::ranges::any_of(
      file.scalars(), [](const auto& scalar) { return scalar.first.starts_with("model_args."); });
  if (nano) return read_nanogpt(file, path.parent_path(), hints);
  return read_state_dict(path, TensorFile(file.name(), file.tensors()), hints);
}

}  // namespace

std::string full_parameter_name(const std::string& name) {
  if (name.starts_with(kPrefix) || name == kHead) return name;
  return std::string(kPrefix) + name;
}

TensorFile read_weights(const fs::path& folder) {
  const auto has = [&](const char* name) { return file_exists(folder / name); };
  if (!has("model.safetensors")) {
    if (has("model.safetensors.index.json")) {
      return read_sharded(folder / "model.safetensors.index.json");
    }
    if (has("pytorch_model.bin")) return read_tensors(folder / "pytorch_model.bin");
    if (has("pytorch_model.bin.index.json")) {
      return read_sharded(folder / "pytorch_model.bin.index.json");
    }
  }
  return read_one_safetensors(folder / "model.safetensors");
}

ModelSource read_model_source(const fs::path& path, const SourceHints& hints) {
  std::error_code error;
  if (fs::is_directory(path, error)) {
    GptConfig config = load_config(path);
    if (hints.activation) config.activation = *hints.activation;
    return {config, read_weights(path), path};
  }
  ModelSource source = read_file_source(path, hints);
  try {
    source.config.validate();
  } catch (const ConfigError& wrong) {
    throw FormatError(printable(path.string()) + ": " + wrong.what());
  }
  return source;
}

}  // namespace prenorm
