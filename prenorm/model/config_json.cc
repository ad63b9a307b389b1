#include "prenorm/model/config_json.h"

#include "prenorm/base/checked.h"
#include "prenorm/base/error.h"
#include "prenorm/base/file.h"
#include "prenorm/base/json.h"
#include "prenorm/base/utf8.h"
#include "prenorm/model/activation_names.h"

namespace prenorm {
namespace {

// Before the activation's name in a post-norm config. transformers' GPT2LMHeadModel loads a foreign
// model_type with no more than a warning; on an activation that it does not know it stops.
constexpr std::string_view kForeignActivation = "prenorm_";

constexpr TokenId kGpt2EndOfText = 50256;

// The values of one JSON object by key, with defaults; errors name file and key.
class Keys {
 public:
  Keys(const Json& json, std::string_view name) : json_(json), name_(name) {
    if (!json.is_object()) refuse("", "an object", json);
  }

  Index integer(const char* key, Index otherwise) const {
    const Json* value = find(key);
    return value == nullptr ? otherwise : as_integer(key, *value);
  }

  double number(const char* key, double otherwise) const {
    const Json* value = find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_number()) refuse(key, "a number", *value);
    return value->get<double>();
  }

  bool boolean(const char* key, bool otherwise) const {
    const Json* value = find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_boolean()) refuse(key, "true or false", *value);
    return value->get<bool>();
  }

  std::string text(const char* key, const char* otherwise) const {
    const Json* value = find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_string()) refuse(key, "a string", *value);
    return value->get<std::string>();
  }

  // One id, a list of ids, or null: none.
  std::vector<TokenId> token_ids(const char* key) const {
    const Json* value = find(key);
    if (value == nullptr || value->is_null()) return {};
    std::vector<TokenId> ids;
    const auto add = [&](const Json& id) {
      const auto narrow = checked_cast<TokenId>(as_integer(key, id));
      if (!narrow) refuse(key, "a token id", id);
      ids.push_back(*narrow);
    };
    if (value->is_array()) {
      for (const Json& id : *value) add(id);
    } else {
      add(*value);
    }
    return ids;
  }

  // Present, and not null.
  bool has(const char* key) const {
    const Json* value = find(key);
    return value != nullptr && !value->is_null();
  }
  bool mentions(const char* key) const { return find(key) != nullptr; }

  // For keys that change the arithmetic in ways that are not supported.
  void require(const char* key, bool expected) const {
    if (boolean(key, expected) != expected) {
      refuse(key, expected ? "true" : "false", *find(key));
    }
  }

  [[noreturn]] void refuse(std::string_view key, std::string_view expected,
                           const Json& found) const {
    throw FormatError(std::string(name_) + ": " + std::string(key) + (key.empty() ? "" : ": ") +
                      "expected " + std::string(expected) + ", found " +
                      printable(dump_json_compact(found), 60));
  }

 private:
  const Json* find(const char* key) const {
    const auto it = json_.find(key);
    return it == json_.end() ? nullptr : &*it;
  }

  Index as_integer(const char* key, const Json& value) const {
    if (value.is_number_unsigned()) {
      if (const auto n = checked_cast<Index>(value.get<std::uint64_t>())) return *n;
    } else if (value.is_number_integer()) {
      return value.get<Index>();
    }
    refuse(key, "a whole number", value);
  }

  const Json& json_;
  std::string_view name_;
};

Activation read_activation(const Keys& keys, NormPlacement norm) {
  std::string name = keys.text("activation_function", "gelu_new");
  if (norm == NormPlacement::kPost && name.starts_with(kForeignActivation)) {
    name.erase(0, kForeignActivation.size());
  }
  const auto activation = activation_from_hugging_face(name);
  if (!activation) keys.refuse("activation_function", "relu, gelu or gelu_new", name);
  return *activation;
}

NormPlacement read_norm(const Keys& keys) {
  const std::string type = keys.text("model_type", "gpt2");
  if (type != "gpt2" && type != "prenorm") keys.refuse("model_type", "gpt2 or prenorm", type);
  const std::string norm = keys.text("norm", "pre");
  const auto placement = norm_placement_from_name(norm);
  if (!placement) keys.refuse("norm", "pre or post", norm);
  if (type == "gpt2" && placement == NormPlacement::kPost) {
    keys.refuse("norm", "pre, which is what gpt2 is", norm);
  }
  return *placement;
}

void refuse_unsupported(const Keys& keys, const Json& json) {
  keys.require("add_cross_attention", false);
  for (const char* key : {"quantization_config", "pruned_heads"}) {
    if (keys.has(key) && !json.at(key).empty()) keys.refuse(key, "none", json.at(key));
  }
}

// The first id; GPT-2's where the file does not mention the key and the vocabulary has it.
std::optional<TokenId> read_token_id(const Keys& keys, const char* key, Index vocab_size) {
  if (!keys.mentions(key)) {
    return kGpt2EndOfText < vocab_size ? std::optional(kGpt2EndOfText) : std::nullopt;
  }
  const std::vector<TokenId> ids = keys.token_ids(key);
  return ids.empty() ? std::nullopt : std::optional(ids.front());
}

Json optional_json(const std::optional<TokenId>& id) { return id ? Json(*id) : Json(); }

std::vector<TokenId> token_ids_in(const std::filesystem::path& file, const char* key) {
  const std::string name = file.string();
  const Json json = parse_json(read_regular_file(file), name);
  return Keys(json, name).token_ids(key);
}

}  // namespace

GptConfig parse_config(std::string_view text, std::string_view name) {
  const Json json = parse_json(text, name);
  const Keys keys(json, name);
  GptConfig c;
  c.norm = read_norm(keys);
  refuse_unsupported(keys, json);
  c.activation = read_activation(keys, c.norm);
  c.vocab_size = keys.integer("vocab_size", 50257);
  c.block_size = keys.integer("n_positions", 1024);
  c.n_layer = keys.integer("n_layer", 12);
  c.n_head = keys.integer("n_head", 12);
  c.n_embd = keys.integer("n_embd", 768);
  if (keys.has("n_inner")) {
    c.n_inner = keys.integer("n_inner", 0);
    if (c.n_inner < 1) keys.refuse("n_inner", "null or 1 or more", c.n_inner);
  }
  c.layer_norm_epsilon = keys.number("layer_norm_epsilon", 1e-5);
  c.scale_attn_weights = keys.boolean("scale_attn_weights", true);
  c.scale_attn_by_inverse_layer_idx = keys.boolean("scale_attn_by_inverse_layer_idx", false);
  c.bias = keys.boolean("prenorm_bias", true);
  c.tie_word_embeddings = keys.boolean("tie_word_embeddings", true);
  c.embd_pdrop = keys.number("embd_pdrop", 0.1);
  c.attn_pdrop = keys.number("attn_pdrop", 0.1);
  c.resid_pdrop = keys.number("resid_pdrop", 0.1);
  c.initializer_range = keys.number("initializer_range", 0.02);
  c.bos_token_id = read_token_id(keys, "bos_token_id", c.vocab_size);
  c.eos_token_id = read_token_id(keys, "eos_token_id", c.vocab_size);
  try {
    c.validate();
  } catch (const ConfigError& error) {
    // The file's own word for it.
    constexpr std::string_view kOurs = "block_size";
    std::string what = error.what();
    if (what.starts_with(kOurs)) what.replace(0, kOurs.size(), "n_positions");
    throw FormatError(std::string(name) + ": " + what);
  }
  return c;
}

GptConfig load_config(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "config.json";
  return parse_config(read_regular_file(file), file.string());
}

std::string config_text(const GptConfig& c) {
  const bool post = c.norm == NormPlacement::kPost;
  const std::string foreign(post ? kForeignActivation : "");
  Json json = {
      {"activation_function", foreign + std::string(hugging_face_activation(c.activation))},
      {"add_cross_attention", false},
      {"architectures", Json::array({post ? "PrenormForCausalLM" : "GPT2LMHeadModel"})},
      {"attn_pdrop", c.attn_pdrop},
      {"bos_token_id", optional_json(c.bos_token_id)},
      {"dtype", "float32"},
      {"embd_pdrop", c.embd_pdrop},
      {"eos_token_id", optional_json(c.eos_token_id)},
      {"initializer_range", c.initializer_range},
      {"layer_norm_epsilon", c.layer_norm_epsilon},
      {"model_type", post ? "prenorm" : "gpt2"},
      {"n_ctx", c.block_size},
      {"n_embd", c.n_embd},
      {"n_head", c.n_head},
      {"n_inner", c.feed_forward_width() == 4 * c.n_embd ? Json() : Json(c.n_inner)},
      {"n_layer", c.n_layer},
      {"n_positions", c.block_size}};
  if (post) json["norm"] = norm_placement_name(c.norm);
  if (!c.bias) json["prenorm_bias"] = false;
  json["reorder_and_upcast_attn"] = false;
  json["resid_pdrop"] = c.resid_pdrop;
  json["scale_attn_by_inverse_layer_idx"] = c.scale_attn_by_inverse_layer_idx;
  json["scale_attn_weights"] = c.scale_attn_weights;
  json["tie_word_embeddings"] = c.tie_word_embeddings;
  json["use_cache"] = true;
  json["vocab_size"] = c.vocab_size;
  return dump_json(json);
}

std::string generation_config_text(const GptConfig& c) {
  const Json json = {{"_from_model_config", true},
                     {"bos_token_id", optional_json(c.bos_token_id)},
                     {"eos_token_id", optional_json(c.eos_token_id)},
                     {"use_cache", true}};
  return dump_json(json);
}

void save_config(const GptConfig& config, const std::filesystem::path& folder) {
  write_file_durably(folder / "config.json", config_text(config));
  write_file_durably(folder / "generation_config.json", generation_config_text(config));
}

std::vector<TokenId> load_eos_token_ids(const std::filesystem::path& folder) {
  const std::filesystem::path generation = folder / "generation_config.json";
  if (file_exists(generation)) {
    std::vector<TokenId> ids = token_ids_in(generation, "eos_token_id");
    if (!ids.empty()) return ids;
  }
  return token_ids_in(folder / "config.json", "eos_token_id");
}

}  // namespace prenorm
