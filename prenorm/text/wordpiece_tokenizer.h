// BERT's tokenizer: the words of bert_normalizer.h, each cut greedily into the longest pieces of a
// vocabulary, "##" before those that go on inside a word (Schuster, Nakajima 2012).
//
//   const auto tokenizer = load_wordpiece_tokenizer("all-MiniLM-L6-v2");
//   std::vector<TokenId> ids = tokenizer->with_frame(tokenizer->encode("Hello there"), 512);
//
// The tokens are those of Hugging Face's BertTokenizerFast.
#pragma once
#include <memory>
#include <unordered_map>

#include "prenorm/text/added_tokens.h"
#include "prenorm/text/bert_normalizer.h"
#include "prenorm/text/tokenizer.h"

namespace prenorm {

// What its files hold.
struct WordPieceModel {
  std::vector<std::string> tokens;  // by id
  std::string unk_token = "[UNK]", cls_token = "[CLS]", sep_token = "[SEP]";
  std::string continuing_subword_prefix = "##";
  Index max_input_chars_per_word = 100;  // a longer word is one unknown token
  BertNormalization normalization;
  std::vector<AddedToken> added_tokens;  // [PAD], [UNK], …: found in a text where asked for

  // Each text has one id, the three special tokens are there. Throws FormatError `NAME: …`.
  void validate(std::string_view name) const;
};

class WordPieceTokenizer : public Tokenizer {
 public:
  // Throws FormatError.
  explicit WordPieceTokenizer(WordPieceModel model, std::string_view name = "WordPiece");

  // Without [CLS] and [SEP]. Any bytes: those that are not UTF-8 are dropped with the controls.
  std::vector<TokenId> encode(std::string_view text) const override;
  std::vector<TokenId> encode_with_special_tokens(std::string_view text) const override;
  // The words with blanks between them: what normalization took is lost.
  std::string decode(std::span<const TokenId> ids) const override;
  Index vocab_size() const override { return static_cast<Index>(model_.tokens.size()); }
  std::string_view kind() const override { return "wordpiece"; }
  bool needs_utf8() const override { return false; }
  void save(const std::filesystem::path& folder) const override;

  // [CLS] ids [SEP], the ids cut at their end so that all are at most max_length (2 or more).
  std::vector<TokenId> with_frame(std::vector<TokenId> ids, Index max_length) const;
  const WordPieceModel& model() const { return model_; }

 private:
  void encode_word(const std::string& word, std::vector<TokenId>& ids) const;
  TokenId id_of(const std::string& token) const { return ids_.at(token); }

  WordPieceModel model_;
  std::unordered_map<std::string_view, TokenId> ids_;    // of the tokens that begin words
  std::unordered_map<std::string_view, TokenId> inner_;  // of the others, without their prefix
  std::size_t longest_ = 0;                              // bytes of a token
  AddedTokens added_;
  TokenId unk_ = 0, cls_ = 0, sep_ = 0;
};

// tokenizer.json of the type WordPiece, or else vocab.txt with tokenizer_config.json's flags where
// that is there. Throws IoError; FormatError naming what would make Hugging Face's tokenizer encode
// otherwise.
std::unique_ptr<WordPieceTokenizer> load_wordpiece_tokenizer(const std::filesystem::path& folder);

}  // namespace prenorm
