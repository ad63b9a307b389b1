#include "prenorm/text/char_tokenizer.h"

#include <algorithm>

#include "prenorm/base/utf8.h"
#include "prenorm/text/tokenizer_files.h"

namespace prenorm {
namespace {

// The first character of what is left; throws where it is not UTF-8.
Utf8Step checked_step(std::string_view text, std::size_t at) {
  const Utf8Step step = utf8_step(text.substr(at));
  if (!step.valid) {
    throw EncodeError("text", at, "UTF-8", "'" + printable(text.substr(at, 1)) + "'");
  }
  return step;
}

bool is_scalar_value(char32_t c) { return c <= 0x10FFFF && !(c >= 0xD800 && c <= 0xDFFF); }

}  // namespace

CharTokenizer::CharTokenizer(std::vector<char32_t> vocabulary)
    : vocabulary_(std::move(vocabulary)), ascii_(128, -1) {
  if (vocabulary_.empty()) throw DataError("char vocabulary: expected characters, found none");
  TokenId id = 0;
  for (const char32_t c : vocabulary_) {
    if (!is_scalar_value(c) || !ids_.emplace(c, id).second) {
      throw DataError("char vocabulary: expected distinct characters, found " +
                      describe_character(c));
    }
    if (c < 128) ascii_[c] = id;
    ++id;
  }
}

CharTokenizer CharTokenizer::from_text(std::string_view text) {
  std::vector<bool> seen(0x110000);
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Step step = checked_step(text, at);
    seen[step.code_point] = true;
    at += step.length;
  }
  std::vector<char32_t> vocabulary;
  for (char32_t c = 0; c < seen.size(); ++c) {
    if (seen[c]) vocabulary.push_back(c);
  }
  return CharTokenizer(std::move(vocabulary));
}

std::vector<TokenId> CharTokenizer::encode(std::string_view text) const {
  std::vector<TokenId> ids;
  ids.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const auto byte = static_cast<unsigned char>(text[at]);
    if (byte < 128 && ascii_[byte] >= 0) {
      ids.push_back(ascii_[byte]);
      ++at;
      continue;
    }
    const Utf8Step step = checked_step(text, at);
    const auto it = ids_.find(step.code_point);
    if (it == ids_.end()) {
      throw EncodeError(
          "text", at,
          "a character of the vocabulary (" + std::to_string(vocabulary_.size()) + " characters)",
          describe_character(step.code_point));
    }
    ids.push_back(it->second);
    at += step.length;
  }
  return ids;
}

std::string CharTokenizer::decode(std::span<const TokenId> ids) const {
  std::string text;
  text.reserve(ids.size());
  for (const TokenId id : ids) {
    if (id < 0 || id >= vocab_size()) {
      throw DataError("token id: expected 0 to " + std::to_string(vocab_size() - 1) + ", found " +
                      std::to_string(id));
    }
    append_utf8(text, vocabulary_[static_cast<std::size_t>(id)]);
  }
  return text;
}

void CharTokenizer::save(const std::filesystem::path& folder) const {
  save_symbol_tokenizer(folder, kind(), vocabulary_);
}

}  // namespace prenorm
