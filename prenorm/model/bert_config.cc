#include "prenorm/model/bert_config.h"

#include <fmt/format.h>

#include <cmath>
#include <string>

#include "prenorm/base/checked.h"
#include "prenorm/base/error.h"
#include "prenorm/base/file.h"
#include "prenorm/model/activation_names.h"
#include "prenorm/text/json_reader.h"

namespace prenorm {
namespace {

constexpr Index kMaxSize = Index{1} << 24;

void check_size(const char* name, Index value) {
  if (value >= 1 && value <= kMaxSize) return;
  throw ConfigError(
      fmt::format("{}: expected a whole number from 1 to {}, found {}", name, kMaxSize, value));
}

class Reader : JsonReader {
 public:
  Reader(const Json& json, std::string_view name) : JsonReader(name), json_(json) {}

  BertConfig read() const {
    if (const Json& type = value("model_type"); type != "bert") {
      refuse_key("model_type", "\"bert\"", type);
    }
    require_absent_or("position_embedding_type", "absolute");
    require_absent_or("is_decoder", false);
    require_absent_or("add_cross_attention", false);
    if (const Json& pruned = value("pruned_heads"); !pruned.empty()) {
      refuse_key("pruned_heads", "none", pruned);
    }
    BertConfig c;
    c.vocab_size = integer("vocab_size", c.vocab_size);
    c.max_position_embeddings = integer("max_position_embeddings", c.max_position_embeddings);
    c.type_vocab_size = integer("type_vocab_size", c.type_vocab_size);
    c.hidden_size = integer("hidden_size", c.hidden_size);
    c.num_hidden_layers = integer("num_hidden_layers", c.num_hidden_layers);
    c.num_attention_heads = integer("num_attention_heads", c.num_attention_heads);
    c.intermediate_size = integer("intermediate_size", c.intermediate_size);
    c.hidden_act = activation();
    c.layer_norm_eps = number("layer_norm_eps", c.layer_norm_eps);
    const Index pad = integer("pad_token_id", c.pad_token_id);
    if (pad < 0 || (c.vocab_size > 0 && pad >= c.vocab_size)) {
      refuse_key("pad_token_id", "an id of the vocabulary", value("pad_token_id"));
    }
    c.pad_token_id = static_cast<TokenId>(pad);
    try {
      c.validate();
    } catch (const ConfigError& error) {
      throw FormatError(name() + ": " + error.what());
    }
    return c;
  }

 private:
  const Json& value(const char* key) const { return member(json_, key); }

  [[noreturn]] void refuse_key(const char* key, std::string_view expected,
                               const Json& found) const {
    throw FormatError(name() + ": " + key + ": expected " + std::string(expected) + ", found " +
                      shown(found));
  }

  void require_absent_or(const char* key, const Json& wanted) const {
    const Json& found = value(key);
    if (!found.is_null() && found != wanted) refuse_key(key, shown(wanted), found);
  }

  Index integer(const char* key, Index otherwise) const {
    const Json& found = value(key);
    if (found.is_null()) return otherwise;
    if (found.is_number_unsigned()) {
      if (const auto n = checked_cast<Index>(found.get<std::uint64_t>())) return *n;
    } else if (found.is_number_integer()) {
      return found.get<Index>();
    }
    refuse_key(key, "a whole number", found);
  }

  double number(const char* key, double otherwise) const {
    const Json& found = value(key);
    if (found.is_null()) return otherwise;
    if (!found.is_number()) refuse_key(key, "a number", found);
    return found.get<double>();
  }

  Activation activation() const {
    const Json& found = value("hidden_act");
    if (found.is_null()) return BertConfig().hidden_act;
    if (found.is_string()) {
      const auto activation = activation_from_hugging_face(found.get<std::string>());
      if (activation) return *activation;
    }
    refuse_key("hidden_act", "gelu, gelu_new, gelu_pytorch_tanh or relu", found);
  }

  const Json& json_;
};

}  // namespace

void BertConfig::validate() const {
  check_size("vocab_size", vocab_size);
  check_size("max_position_embeddings", max_position_embeddings);
  check_size("type_vocab_size", type_vocab_size);
  check_size("hidden_size", hidden_size);
  check_size("num_hidden_layers", num_hidden_layers);
  check_size("num_attention_heads", num_attention_heads);
  check_size("intermediate_size", intermediate_size);
  if (hidden_size % num_attention_heads != 0) {
    throw ConfigError(fmt::format(
        "num_attention_heads: expected a number of heads that divides hidden_size = {}, found {}",
        hidden_size, num_attention_heads));
  }
  if (!(layer_norm_eps > 0.0) || !std::isfinite(layer_norm_eps)) {
    throw ConfigError(
        fmt::format("layer_norm_eps: expected a positive number, found {}", layer_norm_eps));
  }
}

BertConfig parse_bert_config(std::string_view text, std::string_view name) {
  const Json json = parse_json(text, name);
  return Reader(json, name).read();
}

BertConfig load_bert_config(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "config.json";
  return parse_bert_config(read_regular_file(file), file.string());
}

}  // namespace prenorm
