// One token a Unicode code point, out of those that a text has; ids follow the code points' order.
#pragma once
#include <unordered_map>

#include "prenorm/text/tokenizer.h"

namespace prenorm {

class CharTokenizer : public Tokenizer {
 public:
  // The vocabulary in the order of its ids. Throws DataError when it is empty, has a code point
  // twice or one that is none.
  explicit CharTokenizer(std::vector<char32_t> vocabulary);
  // The vocabulary of a text: its code points, sorted. Throws EncodeError where it is not UTF-8,
  // DataError where it is empty.
  static CharTokenizer from_text(std::string_view text);

  using Tokenizer::decode;
  std::vector<TokenId> encode(std::string_view text) const override;
  std::string decode(std::span<const TokenId> ids) const override;
  Index vocab_size() const override { return static_cast<Index>(vocabulary_.size()); }
  std::string_view kind() const override { return "char"; }
  bool needs_utf8() const override { return true; }
  void save(const std::filesystem::path& folder) const override;

  std::span<const char32_t> vocabulary() const { return vocabulary_; }

 private:
  std::vector<char32_t> vocabulary_;
  std::vector<TokenId> ascii_;  // id by code point below 128, or -1
  std::unordered_map<char32_t, TokenId> ids_;
};

}  // namespace prenorm
