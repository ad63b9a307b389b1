#include "prenorm/model/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "prenorm/base/error.h"
#include "prenorm/base/file.h"
#include "prenorm/base/utf8.h"
#include "prenorm/formats/safetensors.h"
#include "prenorm/model/config_json.h"
#include "prenorm/model/model_source.h"
#include "prenorm/model/tensor_misfits.h"

namespace prenorm {
namespace {

constexpr const char* kHead = "lm_head.weight";
constexpr const char* kTokenEmbedding = "transformer.wte.weight";
constexpr const char* kWeightsFile = "model.safetensors";

// The bias that goes with a weight in Hugging Face's model, where the registry has none; empty for
// weights that never have one.
std::string absent_bias(const ParameterRegistry& parameters, const Parameter& weight) {
  constexpr std::string_view kWeight = ".weight";
  const std::string& name = weight.name;
  if (!name.ends_with(kWeight) || name == kHead || name == kTokenEmbedding ||
      name == "transformer.wpe.weight") {
    return "";
  }
  std::string bias = name.substr(0, name.size() - kWeight.size()) + ".bias";
  return parameters.find(bias) == nullptr ? bias : "";
}

// h.N.attn.bias and h.N.attn.masked_bias: the causal mask that older files carry.
bool is_mask_buffer(std::string_view name, Index layers) {
  constexpr std::string_view kLayer = "transformer.h.";
  if (!name.starts_with(kLayer)) return false;
  name.remove_prefix(kLayer.size());
  Index layer = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), layer);
  const std::string_view rest = name.substr(static_cast<std::size_t>(end - name.data()));
  const std::string_view digits = name.substr(0, name.size() - rest.size());
  const bool plain = digits == std::to_string(layer);  // no sign, no leading zeros
  return error == std::errc() && plain && layer >= 0 && layer < layers &&
         (rest == ".attn.bias" || rest == ".attn.masked_bias");
}

// Fills a model from a file; checks everything before it changes anything.
class Loader {
 public:
  Loader(Gpt& model, const TensorFile& file) : model_(model), file_(file) {
    for (const Tensor& t : file.tensors()) {
      const auto [it, added] = tensors_.emplace(full_parameter_name(t.name), &t);
      if (!added)
        refuse(t.name, "one tensor of this name", "another with and without 'transformer.'");
    }
  }

  void load(const Runtime* run, WeightMemory memory = WeightMemory::kOwn) {
    for (Parameter& p : model_.parameters()) match(p);
    match_head();
    for (const auto& [name, tensor] : tensors_) {
      if (!is_mask_buffer(name, model_.config().n_layer)) {
        misfits_.unexpected.push_back(printable(tensor->name));
      }
    }
    misfits_.throw_if_any(file_.name());
    for (const Tensor* bias : zero_biases_) check_zero(*bias);
    if (head_ != nullptr) check_tied(*head_);
    for (const auto& [parameter, tensor] : matches_) file_.check_floating_point(*tensor);
    if (memory == WeightMemory::kMapped) borrow();
    read(run);
  }

 private:
  // Tensors that lie in the file as they are in memory; what remains is read.
  void borrow() {
    const auto fits = [this](const auto& match) {
      const auto& [parameter, tensor] = match;
      const std::span<const std::byte> bytes = tensor->bytes;
      const bool aligned = reinterpret_cast<std::uintptr_t>(bytes.data()) % alignof(float) == 0;
      if (tensor->dtype != Dtype::kF32 || !aligned) return false;
      model_.parameters().borrow(
          *parameter, {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)},
          tensor->owner != nullptr ? tensor->owner : file_.owner());
      return true;
    };
    std::erase_if(matches_, fits);
  }

  // All that could be wrong has been checked.
  void read(const Runtime* run) const {
    constexpr std::size_t kPiece = std::size_t{1} << 19;
    struct Piece {
      const Tensor* tensor;
      std::size_t first;
      std::span<float> to;
    };
    std::vector<Piece> pieces;
    for (const auto& [parameter, tensor] : matches_) {
      for (std::size_t first = 0; first < parameter->value.size(); first += kPiece) {
        const std::size_t count = std::min(kPiece, parameter->value.size() - first);
        pieces.push_back({tensor, first, parameter->value.subspan(first, count)});
      }
    }
    const auto read_piece = [&](Index i, int) {
      const Piece& piece = pieces[static_cast<std::size_t>(i)];
      file_.read(*piece.tensor, piece.to, piece.first);
    };
    const auto count = static_cast<Index>(pieces.size());
    if (run != nullptr) return run->pool().run(count, read_piece);
    for (Index i = 0; i < count; ++i) read_piece(i, 0);
  }

  [[noreturn]] void refuse(const std::string& tensor, std::string_view expected,
                           std::string_view found) const {
    throw FormatError(file_.name() + ": tensor '" + printable(tensor) + "': expected " +
                      std::string(expected) + ", found " + std::string(found));
  }

  const Tensor* take(const std::string& name) {
    const auto it = tensors_.find(name);
    if (it == tensors_.end()) return nullptr;
    const Tensor* tensor = it->second;
    tensors_.erase(it);
    return tensor;
  }

  void match(Parameter& p) {
    if (const Tensor* tensor = take(p.name)) {
      misfits_.check(*tensor, p.shape);
      matches_.emplace_back(&p, tensor);
    } else {
      misfits_.missing.push_back(p.name);
    }
    if (model_.config().bias) return;
    const std::string bias = absent_bias(model_.parameters(), p);
    if (bias.empty()) return;
    if (const Tensor* tensor = take(bias)) {
      misfits_.check(*tensor, std::span(p.shape).last(1));
      zero_biases_.push_back(tensor);
    }
  }

  void match_head() {
    if (!model_.config().tie_word_embeddings) return;
    head_ = take(kHead);
    const Parameter* wte = model_.parameters().find(kTokenEmbedding);
    if (head_ != nullptr && wte != nullptr) misfits_.check(*head_, wte->shape);
  }

  void check_zero(const Tensor& bias) const {
    const std::vector<float> values = file_.floats(bias);
    if (std::ranges::all_of(values, [](float x) { return x == 0.0f; })) return;
    refuse(bias.name, "zeros, as the model has no biases (prenorm_bias is false)", "other values");
  }

  void check_tied(const Tensor& head) const {
    const auto wte = std::ranges::find(matches_, kTokenEmbedding,
                                       [](const auto& match) { return match.first->name; });
    const std::vector<float> a = file_.floats(head), b = file_.floats(*wte->second);
    if (std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0) return;
    refuse(head.name, "a copy of wte.weight, as tie_word_embeddings is true", "other values");
  }

  Gpt& model_;
  const TensorFile& file_;
  std::map<std::string, const Tensor*> tensors_;  // by canonical name; those not matched yet
  std::vector<std::pair<Parameter*, const Tensor*>> matches_;
  std::vector<const Tensor*> zero_biases_;
  const Tensor* head_ = nullptr;
  TensorMisfits misfits_;
};

// Refuses a config whose model is far larger than what the file holds, before memory is taken for
// it. Whatever is nearly right goes on to the comparison by name, which says more.
void check_size(const GptConfig& c, const TensorFile& file) {
  constexpr Index kSlack = 1 << 20, kWeightsPerLayer = 6;
  const Index width = c.n_embd;
  // Countable: GptConfig::validate() has seen to it.
  const Index expected = width * (c.vocab_size + c.block_size) +
                         c.n_layer * width * (4 * width + 2 * c.feed_forward_width());
  Index found = 0;
  for (const Tensor& t : file.tensors()) {
    if (dtype_is_floating_point(t.dtype)) found += t.size();  // within the file's bytes
  }
  const auto tensors = static_cast<Index>(file.tensors().size());
  if (expected <= 2 * found + kSlack && c.n_layer * kWeightsPerLayer <= 2 * tensors + 100) return;
  throw FormatError(file.name() + ": expected " + std::to_string(c.n_layer) +
                    " layers with at least " + std::to_string(expected) +
                    " parameters, as config.json says, found " + std::to_string(tensors) +
                    " tensors with " + std::to_string(found));
}

void check_folder(const std::filesystem::path& folder) {
  std::error_code error;
  if (std::filesystem::is_directory(folder, error)) return;
  throw IoError(folder.string() + ": expected a model folder, found " +
                (std::filesystem::exists(folder, error) ? "a file" : "no such folder"));
}

}  // namespace

void save_pretrained(const Gpt& model, const std::filesystem::path& folder) {
  ensure_directory(folder);
  std::size_t widest = 0;
  for (const Parameter& p : model.parameters()) {
    widest = std::max(widest, static_cast<std::size_t>(p.shape.back()));
  }
  const std::vector<float> zeros(model.config().bias ? 0 : widest);
  std::vector<Tensor> tensors;
  for (const Parameter& p : model.parameters()) {
    tensors.push_back(tensor(p.name, p.shape, std::span<const float>(p.value)));
    if (model.config().bias) continue;
    const std::string bias = absent_bias(model.parameters(), p);
    if (bias.empty()) continue;
    const auto n = static_cast<std::size_t>(p.shape.back());
    tensors.push_back(tensor(bias, {p.shape.back()}, std::span(zeros).first(n)));
  }
  save_safetensors(folder / kWeightsFile, std::move(tensors));
  save_config(model.config(), folder);
}

std::unique_ptr<Gpt> load_pretrained(const std::filesystem::path& folder, Gpt::Mode mode,
                                     const Runtime* run, WeightMemory memory) {
  check_folder(folder);
  const GptConfig config = load_config(folder);
  return model_from_weights(config, read_weights(folder), mode, run, memory);
}

std::unique_ptr<Gpt> model_from_weights(const GptConfig& config, const TensorFile& weights,
                                        Gpt::Mode mode, const Runtime* run, WeightMemory memory) {
  check_size(config, weights);
  auto model = std::make_unique<Gpt>(config, mode);
  Loader(*model, weights).load(run, memory);
  return model;
}

void load_weights(Gpt& model, const std::filesystem::path& path) {
  Loader(model, read_tensors(path)).load(nullptr);
}

}  // namespace prenorm
