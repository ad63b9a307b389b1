#include "prenorm/text/wordpiece_json.h"

#include <algorithm>
#include <array>
#include <utility>

#include "prenorm/text/bpe_json.h"
#include "prenorm/text/json_reader.h"

namespace prenorm {
namespace {

constexpr std::size_t kFurtherIds = 1 << 16;  // of added tokens behind the vocabulary
// Of a word; the usual limit is 100. The time for a word that fits no token grows with its square.
constexpr Index kMostCharacters = 1000;

class Reader : JsonReader {
 public:
  using JsonReader::JsonReader;

  WordPieceModel read(const Json& json) const {
    const Json& source = member(json, "model");
    if (type_of(json, "model") != "WordPiece") {
      refuse("a model of type WordPiece", shown(member(source, "type")));
    }
    for (const auto& [key, type] : {std::pair("normalizer", "BertNormalizer"),
                                    std::pair("pre_tokenizer", "BertPreTokenizer")}) {
      if (type_of(json, key) != type) {
        refuse("the " + std::string(key) + " " + type, shown(member(json, key)));
      }
    }
    WordPieceModel model;
    model.tokens = read_vocabulary(member(source, "vocab"), kFurtherIds, name());
    model.unk_token = text(source, "unk_token", model.unk_token);
    model.continuing_subword_prefix =
        text(source, "continuing_subword_prefix", model.continuing_subword_prefix);
    model.max_input_chars_per_word = characters(source);
    model.normalization = normalization(member(json, "normalizer"));
    read_frame(member(json, "post_processor"), model);
    const Json& added = member(json, "added_tokens");
    if (!added.is_null() && !added.is_array()) refuse("a list of added_tokens", shown(added));
    const std::size_t limit = model.tokens.size() + kFurtherIds;
    for (const Json& token : added) add(token, limit, model);
    return model;
  }

  WordPieceModel options(const Json& json) const {
    WordPieceModel model;
    model.unk_token = token_text(json, "unk_token", model.unk_token);
    model.cls_token = token_text(json, "cls_token", model.cls_token);
    model.sep_token = token_text(json, "sep_token", model.sep_token);
    BertNormalization& how = model.normalization;
    how.lowercase = flag(json, "do_lower_case", true);
    how.handle_chinese_chars = flag(json, "tokenize_chinese_chars", true);
    how.strip_accents = flag(json, "strip_accents", how.lowercase);
    if (!flag(json, "do_basic_tokenize", true)) refuse("do_basic_tokenize true", "false");
    if (const Json& never = member(json, "never_split"); !never.empty()) {
      refuse("no never_split", shown(never));
    }
    return model;
  }

 private:
  std::string text(const Json& json, const char* key, const std::string& otherwise) const {
    const Json& value = member(json, key);
    if (value.is_null()) return otherwise;
    if (!value.is_string() || value == "") refuse("text as " + std::string(key), shown(value));
    return value.get<std::string>();
  }

  // A token as text, or as {"content": TEXT, …}.
  std::string token_text(const Json& json, const char* key, const std::string& otherwise) const {
    const Json& value = member(json, key);
    return value.is_object() ? text(value, "content", otherwise) : text(json, key, otherwise);
  }

  bool flag(const Json& json, const char* key, bool otherwise) const {
    const Json& value = member(json, key);
    if (value.is_null()) return otherwise;
    if (!value.is_boolean()) refuse(std::string(key) + " true or false", shown(value));
    return value.get<bool>();
  }

  Index characters(const Json& json) const {
    const Json& value = member(json, "max_input_chars_per_word");
    if (value.is_null()) return WordPieceModel().max_input_chars_per_word;
    if (!value.is_number_integer() || value < 1 || value > kMostCharacters) {
      refuse("1 to 1000 as max_input_chars_per_word", shown(value));
    }
    return value.get<Index>();
  }

  BertNormalization normalization(const Json& json) const {
    BertNormalization how;
    how.clean_text = flag(json, "clean_text", true);
    how.handle_chinese_chars = flag(json, "handle_chinese_chars", true);
    how.lowercase = flag(json, "lowercase", true);
    how.strip_accents = flag(json, "strip_accents", how.lowercase);
    return how;
  }

  // [CLS] and [SEP] as BertProcessing or as the template of a single sequence.
  void read_frame(const Json& json, WordPieceModel& model) const {
    if (json.is_null()) return;
    const Json& type = member(json, "type");
    if (type == "BertProcessing") {
      model.cls_token = first(member(json, "cls"));
      model.sep_token = first(member(json, "sep"));
      return;
    }
    const Json& single = member(json, "single");
    const auto special = [&](std::size_t i) -> const Json& {
      return member(member(single[i], "SpecialToken"), "id");
    };
    const bool plain = type == "TemplateProcessing" && single.is_array() && single.size() == 3 &&
                       single[0].contains("SpecialToken") && single[1].contains("Sequence") &&
                       single[2].contains("SpecialToken") && special(0).is_string() &&
                       special(2).is_string();
    if (!plain) refuse("a post_processor of [CLS], the sequence and [SEP]", shown(json));
    model.cls_token = special(0).get<std::string>();
    model.sep_token = special(2).get<std::string>();
  }

  std::string first(const Json& pair) const {
    if (!pair.is_array() || pair.empty() || !pair[0].is_string()) {
      refuse("a token and its id in post_processor", shown(pair));
    }
    return pair[0].get<std::string>();
  }

  void add(const Json& json, std::size_t limit, WordPieceModel& model) const {
    AddedToken token;
    token.content = text(json, "content", "");
    const Json& id = member(json, "id");
    if (token.content.empty() || !id.is_number_integer() || id < 0 || id >= limit) {
      refuse("a token and its id in added_tokens", shown(json));
    }
    token.id = id.get<TokenId>();
    for (const char* key : {"single_word", "lstrip", "rstrip", "normalized"}) {
      if (flag(json, key, false)) {
        refuse(std::string(key) + " false in added_tokens", "true for " + in_quotes(token.content));
      }
    }
    token.special = flag(json, "special", false);
    const auto at = static_cast<std::size_t>(token.id);
    if (at >= model.tokens.size()) model.tokens.resize(at + 1);
    if (model.tokens[at].empty()) model.tokens[at] = token.content;
    model.added_tokens.push_back(std::move(token));
  }
};

Json special_json(const std::string& content, TokenId id) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

Json template_of(const WordPieceModel& model, bool pair) {
  const auto special = [](const std::string& token, int type) {
    return Json{{"SpecialToken", {{"id", token}, {"type_id", type}}}};
  };
  const auto sequence = [](const char* id, int type) {
    return Json{{"Sequence", {{"id", id}, {"type_id", type}}}};
  };
  Json list =
      Json::array({special(model.cls_token, 0), sequence("A", 0), special(model.sep_token, 0)});
  if (pair) {
    list.push_back(sequence("B", 1));
    list.push_back(special(model.sep_token, 1));
  }
  return list;
}

}  // namespace

bool describes_wordpiece(const Json& tokenizer) {
  if (!tokenizer.is_object()) return false;
  const auto model = tokenizer.find("model");
  if (model == tokenizer.end() || !model->is_object()) return false;
  const auto type = model->find("type");
  return type != model->end() && *type == "WordPiece";
}

WordPieceModel wordpiece_model_of(const Json& tokenizer, std::string_view name) {
  return Reader(name).read(tokenizer);
}

WordPieceModel wordpiece_options_of(const Json& config, std::string_view name) {
  return Reader(name).options(config);
}

void add_wordpiece_vocabulary(std::string_view text, WordPieceModel& model, std::string_view name) {
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    model.tokens.emplace_back(line);
  }
  if (model.tokens.empty()) JsonReader(name).refuse("a token a line", "an empty file");
  for (const std::string& token : {std::string("[PAD]"), model.unk_token, model.cls_token,
                                   model.sep_token, std::string("[MASK]")}) {
    const auto it = std::ranges::find(model.tokens, token);
    if (it == model.tokens.end()) continue;  // validate() asks for those that must be there
    AddedToken added;
    added.content = token;
    added.id = static_cast<TokenId>(it - model.tokens.begin());
    model.added_tokens.push_back(added);
  }
}

Json wordpiece_json_of(const WordPieceModel& model) {
  Json::object_t vocab;
  std::vector<Json::object_t::value_type, Json::object_t::allocator_type>& members = vocab;
  Json special = Json::object();
  for (std::size_t id = 0; id < model.tokens.size(); ++id) {
    const std::string& token = model.tokens[id];
    if (token.empty()) continue;
    members.emplace_back(token, id);  // distinct: no look-up
    if (token != model.cls_token && token != model.sep_token) continue;
    special[token] = {{"id", token}, {"ids", Json::array({id})}, {"tokens", Json::array({token})}};
  }
  Json added = Json::array();
  for (const AddedToken& token : model.added_tokens) {
    added.push_back(special_json(token.content, token.id));
  }
  const BertNormalization& how = model.normalization;
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", std::move(added)},
          {"normalizer",
           {{"type", "BertNormalizer"},
            {"clean_text", how.clean_text},
            {"handle_chinese_chars", how.handle_chinese_chars},
            {"strip_accents", how.strip_accents},
            {"lowercase", how.lowercase}}},
          {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
          {"post_processor",
           {{"type", "TemplateProcessing"},
            {"single", template_of(model, false)},
            {"pair", template_of(model, true)},
            {"special_tokens", std::move(special)}}},
          {"decoder",
           {{"type", "WordPiece"}, {"prefix", model.continuing_subword_prefix}, {"cleanup", true}}},
          {"model",
           {{"type", "WordPiece"},
            {"unk_token", model.unk_token},
            {"continuing_subword_prefix", model.continuing_subword_prefix},
            {"max_input_chars_per_word", model.max_input_chars_per_word},
            {"vocab", std::move(vocab)}}}};
}

Json wordpiece_config_of(const WordPieceModel& model) {
  const BertNormalization& how = model.normalization;
  return {{"tokenizer_class", "PreTrainedTokenizerFast"},
          {"do_lower_case", how.lowercase},
          {"tokenize_chinese_chars", how.handle_chinese_chars},
          {"strip_accents", how.strip_accents},
          {"unk_token", model.unk_token},
          {"cls_token", model.cls_token},
          {"sep_token", model.sep_token},
          {"clean_up_tokenization_spaces", false}};
}

}  // namespace prenorm
