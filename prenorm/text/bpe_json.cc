#include "prenorm/text/bpe_json.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "prenorm/text/json_reader.h"

namespace prenorm {
namespace {

TokenId read_id(const JsonReader& reader, const Json& value, std::size_t limit,
                std::string_view token) {
  if (!value.is_number_integer() || value.get<std::uint64_t>() >= limit) {  // −1 is a large one
    reader.refuse("ids 0 to " + std::to_string(limit - 1),
                  JsonReader::shown(value) + " for " + JsonReader::in_quotes(token));
  }
  return value.get<TokenId>();
}

class TokenizerReader : JsonReader {
 public:
  using JsonReader::JsonReader;

  BpeModel read(const Json& json) const {
    const Json& model = member(json, "model");
    check_model(model);
    if (const Json& normalizer = member(json, "normalizer"); !normalizer.is_null()) {
      refuse("a BPE without normalizer", shown(normalizer));
    }
    const Json& pre = member(json, "pre_tokenizer");
    require(pre, "type", "ByteLevel", Json(), "pre_tokenizer");
    require(pre, "add_prefix_space", false, true, "pre_tokenizer");
    require(pre, "use_regex", true, true, "pre_tokenizer");
    require(member(json, "decoder"), "type", "ByteLevel", Json(), "decoder");

    const Json& added = member(json, "added_tokens");
    if (!added.is_null() && !added.is_array()) refuse("a list of added_tokens", shown(added));
    BpeModel out;
    out.tokens = read_vocabulary(member(model, "vocab"), added.size(), name());
    const std::size_t limit = member(model, "vocab").size() + added.size();
    for (const Json& token : added) {
      out.added_tokens.push_back(added_token(token, limit));
      const auto end = static_cast<std::size_t>(out.added_tokens.back().id) + 1;
      if (end > out.tokens.size()) out.tokens.resize(end);
    }
    out.merges = resolve_merges(out.tokens, merges(member(model, "merges")), name());
    return out;
  }

 private:
  // Refuses an object in which `key` is something else; `absent` is what its absence means.
  void require(const Json& json, const char* key, const Json& value, const Json& absent,
               const char* where) const {
    const Json& found = json.is_null() ? json : member(json, key);
    const Json& meant = found.is_null() && !json.is_null() ? absent : found;
    if (meant == value) return;
    refuse(std::string(key) + " " + shown(value) + " in " + where, shown(meant));
  }

  void check_model(const Json& model) const {
    require(model, "type", "BPE", "BPE", "model");
    for (const char* key : {"byte_fallback", "ignore_merges"}) {
      require(model, key, false, false, "model");
    }
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      require(model, key, "", "", "model");
    }
    require(model, "dropout", 0, 0, "model");
  }

  AddedToken added_token(const Json& json, std::size_t limit) const {
    const Json& content = member(json, "content");
    if (!content.is_string() || content == "") refuse("text in added_tokens", shown(json));
    AddedToken token;
    token.content = content.get<std::string>();
    token.id = read_id(*this, member(json, "id"), limit, token.content);
    for (const char* key : {"single_word", "lstrip", "rstrip"}) {
      if (flag(json, key)) {
        refuse(std::string(key) + " false in added_tokens", "true for " + in_quotes(token.content));
      }
    }
    token.special = flag(json, "special");
    token.normalized = flag(json, "normalized");
    return token;
  }

  bool flag(const Json& json, const char* key) const {
    const Json& value = member(json, key);
    if (!value.is_null() && !value.is_boolean()) {
      refuse(std::string(key) + " true or false in added_tokens", shown(value));
    }
    return value == true;
  }

  std::vector<MergeText> merges(const Json& json) const {
    if (!json.is_array()) refuse("a list of merges", shown(json));
    std::vector<MergeText> out;
    out.reserve(json.size());
    for (const Json& value : json) {
      if (value.is_string()) {
        out.push_back(read_merge(value.get_ref<const std::string&>(), "a merge", name()));
      } else if (value.is_array() && value.size() == 2 && value[0].is_string() &&
                 value[1].is_string()) {
        out.push_back(
            {value[0].get_ref<const std::string&>(), value[1].get_ref<const std::string&>()});
      } else {
        refuse("two tokens in merge " + std::to_string(out.size() + 1), shown(value));
      }
    }
    return out;
  }
};

Json byte_level() {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", true}};
}

Json vocab_json(const std::vector<std::string>& tokens) {
  Json::object_t vocab;
  std::vector<Json::object_t::value_type, Json::object_t::allocator_type>& members = vocab;
  members.reserve(tokens.size());
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    if (!tokens[id].empty()) members.emplace_back(tokens[id], id);  // distinct: no look-up
  }
  return vocab;
}

// "LEFT RIGHT", which every version of tokenizers reads; pairs where a token has a blank.
Json merges_json(const BpeModel& model) {
  const auto token = [&](TokenId id) -> const std::string& {
    return model.tokens[static_cast<std::size_t>(id)];
  };
  const bool blanks = std::ranges::any_of(model.merges, [&](const BpeMerge& merge) {
    return token(merge.result).find(' ') != std::string::npos;
  });
  Json merges = Json::array();
  for (const auto& [left, right, result] : model.merges) {
    if (blanks) {
      merges.push_back(Json::array({token(left), token(right)}));
    } else {
      merges.push_back(token(left) + " " + token(right));
    }
  }
  return merges;
}

Json added_tokens_json(const std::vector<AddedToken>& tokens) {
  Json added = Json::array();
  for (const AddedToken& token : tokens) {
    added.push_back({{"id", token.id},
                     {"content", token.content},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", token.normalized},
                     {"special", token.special}});
  }
  return added;
}

}  // namespace

bool describes_bpe(const Json& tokenizer) {
  if (!tokenizer.is_object()) return false;
  const auto pre = tokenizer.find("pre_tokenizer");
  if (pre == tokenizer.end() || !pre->is_object()) return false;
  const auto type = pre->find("type"), regex = pre->find("use_regex");
  return type != pre->end() && *type == "ByteLevel" && (regex == pre->end() || *regex != false);
}

BpeModel bpe_model_of(const Json& tokenizer, std::string_view name) {
  BpeModel model = TokenizerReader(name).read(tokenizer);
  model.validate(name);
  return model;
}

Json tokenizer_json_of(const BpeModel& model) {
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", added_tokens_json(model.added_tokens)},
          {"normalizer", nullptr},
          {"pre_tokenizer", byte_level()},
          {"post_processor", nullptr},
          {"decoder", byte_level()},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"ignore_merges", false},
            {"vocab", vocab_json(model.tokens)},
            {"merges", merges_json(model)}}}};
}

std::vector<std::string> read_vocabulary(const Json& vocabulary, std::size_t further,
                                         std::string_view name) {
  const JsonReader reader(name);
  if (!vocabulary.is_object() || vocabulary.empty()) {
    reader.refuse("a vocabulary", JsonReader::shown(vocabulary));
  }
  const std::size_t limit = vocabulary.size() + further;
  std::vector<std::string> tokens(vocabulary.size());
  for (const auto& [token, id] : vocabulary.items()) {
    if (token.empty()) {
      reader.refuse("tokens that are not empty", "'' with id " + JsonReader::shown(id));
    }
    const auto at = static_cast<std::size_t>(read_id(reader, id, limit, token));
    if (at >= tokens.size()) tokens.resize(at + 1);
    if (!tokens[at].empty()) {
      reader.refuse("each id once", JsonReader::shown(id) + " for " +
                                        JsonReader::in_quotes(tokens[at]) + " and " +
                                        JsonReader::in_quotes(token));
    }
    tokens[at] = token;
  }
  return tokens;
}

MergeText read_merge(std::string_view text, std::string_view place, std::string_view name) {
  const std::size_t blank = text.find(' ');
  if (blank == std::string_view::npos || blank == 0 || blank + 1 == text.size() ||
      text.find(' ', blank + 1) != std::string_view::npos) {
    JsonReader(name).refuse("two tokens with a blank between them in " + std::string(place),
                            JsonReader::in_quotes(text));
  }
  return {text.substr(0, blank), text.substr(blank + 1)};
}

}  // namespace prenorm
