#include "prenorm/text/wordpiece_tokenizer.h"

#include <algorithm>
#include <utility>

#include "prenorm/base/file.h"
#include "prenorm/base/utf8.h"
#include "prenorm/text/wordpiece_json.h"

namespace prenorm {
namespace {

bool begins_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0u) != 0x80u; }

}  // namespace

void WordPieceModel::validate(std::string_view name) const {
  std::unordered_map<std::string_view, std::size_t> seen;
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    const auto [it, added] = seen.emplace(tokens[id], id);
    if (added || tokens[id].empty()) continue;
    throw FormatError(std::string(name) + ": expected each token once, found '" +
                      printable(tokens[id], 40) + "' with ids " + std::to_string(it->second) +
                      " and " + std::to_string(id));
  }
  for (const std::string& token : {unk_token, cls_token, sep_token}) {
    if (!token.empty() && seen.contains(token)) continue;
    throw FormatError(std::string(name) + ": expected '" + printable(token, 40) +
                      "' in the vocabulary, found " + std::to_string(tokens.size()) + " others");
  }
  for (const AddedToken& token : added_tokens) {
    const auto it = seen.find(token.content);
    if (it != seen.end() && static_cast<TokenId>(it->second) == token.id) continue;
    throw FormatError(std::string(name) + ": expected '" + printable(token.content, 40) +
                      "' with id " + std::to_string(token.id) +
                      " in the vocabulary, found another or none");
  }
}

WordPieceTokenizer::WordPieceTokenizer(WordPieceModel model, std::string_view name)
    : model_(std::move(model)) {
  model_.validate(name);
  const std::string& prefix = model_.continuing_subword_prefix;
  for (std::size_t i = 0; i < model_.tokens.size(); ++i) {
    const std::string_view token = model_.tokens[i];
    if (token.empty()) continue;
    ids_.emplace(token, static_cast<TokenId>(i));
    if (token.starts_with(prefix)) {
      inner_.emplace(token.substr(prefix.size()), static_cast<TokenId>(i));
    }
    longest_ = std::max(longest_, token.size());
  }
  added_ = AddedTokens(model_.added_tokens);
  unk_ = id_of(model_.unk_token);
  cls_ = id_of(model_.cls_token);
  sep_ = id_of(model_.sep_token);
}

void WordPieceTokenizer::encode_word(const std::string& word, std::vector<TokenId>& ids) const {
  const auto characters = std::ranges::count_if(word, begins_character);
  const std::size_t before = ids.size();
  std::string_view rest = word;
  while (characters <= model_.max_input_chars_per_word && !rest.empty()) {
    const auto& pieces = rest.size() == word.size() ? ids_ : inner_;
    std::size_t length = std::min(rest.size(), longest_);
    while (length > 0) {
      const bool whole = length == rest.size() || begins_character(rest[length]);
      if (const auto it = whole ? pieces.find(rest.substr(0, length)) : pieces.end();
          it != pieces.end()) {
        ids.push_back(it->second);
        break;
      }
      --length;
    }
    if (length == 0) break;
    rest.remove_prefix(length);
  }
  if (rest.empty()) return;
  ids.resize(before);
  ids.push_back(unk_);
}

std::vector<TokenId> WordPieceTokenizer::encode(std::string_view text) const {
  std::vector<TokenId> ids;
  for (const std::string& word : bert_words(text, model_.normalization)) encode_word(word, ids);
  return ids;
}

std::vector<TokenId> WordPieceTokenizer::encode_with_special_tokens(std::string_view text) const {
  std::vector<TokenId> ids;
  for (const AddedTokens::Part& part : added_.split(text, true)) {
    if (part.id >= 0) {
      ids.push_back(part.id);
    } else {
      for (const TokenId id : encode(part.text)) ids.push_back(id);
    }
  }
  return ids;
}

std::string WordPieceTokenizer::decode(std::span<const TokenId> ids) const {
  std::string text;
  const std::string& prefix = model_.continuing_subword_prefix;
  for (const TokenId& id : ids) {
    if (id < 0 || id >= vocab_size()) {
      throw DataError("decode: expected token ids 0 to " + std::to_string(vocab_size() - 1) +
                      ", found " + std::to_string(id));
    }
    const std::string_view token = model_.tokens[static_cast<std::size_t>(id)];
    if (&id == ids.data()) {
      text += token;
    } else if (token.starts_with(prefix)) {
      text += token.substr(prefix.size());
    } else {
      text.append(1, ' ').append(token);
    }
  }
  return text;
}

std::vector<TokenId> WordPieceTokenizer::with_frame(std::vector<TokenId> ids,
                                                    Index max_length) const {
  const auto room = static_cast<std::size_t>(std::max<Index>(max_length - 2, 0));
  if (ids.size() > room) ids.resize(room);
  ids.insert(ids.begin(), cls_);
  ids.push_back(sep_);
  return ids;
}

void WordPieceTokenizer::save(const std::filesystem::path& folder) const {
  write_file_durably(folder / "tokenizer.json", dump_json(wordpiece_json_of(model_)));
  write_file_durably(folder / "tokenizer_config.json", dump_json(wordpiece_config_of(model_)));
}

std::unique_ptr<WordPieceTokenizer> load_wordpiece_tokenizer(const std::filesystem::path& folder) {
  const std::filesystem::path json = folder / "tokenizer.json", list = folder / "vocab.txt";
  if (file_exists(json)) {
    const std::string name = json.string();
    return std::make_unique<WordPieceTokenizer>(
        wordpiece_model_of(parse_json(read_regular_file(json), name), name), name);
  }
  WordPieceModel model;
  const std::filesystem::path config = folder / "tokenizer_config.json";
  if (file_exists(config)) {
    const std::string name = config.string();
    model = wordpiece_options_of(parse_json(read_regular_file(config), name), name);
  }
  add_wordpiece_vocabulary(read_regular_file(list), model, list.string());
  return std::make_unique<WordPieceTokenizer>(std::move(model), list.string());
}

}  // namespace prenorm
