// GPT-2's tokenizer: byte-level BPE behind gpt2_pattern.h. Encodes as tiktoken's "gpt2" and Hugging
// Face's GPT2Tokenizer do, and any bytes: what is no UTF-8 becomes tokens of single bytes.
//
//   const std::unique_ptr<BpeTokenizer> tokenizer = load_bpe_tokenizer("gpt2");
//   tokenizer->encode("<|endoftext|>");                      // seven tokens: text of strangers
//   tokenizer->encode_with_special_tokens("<|endoftext|>");  // 50256
//
// Time and memory are linear in the text, a factor log n within one piece of n bytes. Several
// threads may use one tokenizer.
#pragma once
#include <array>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "prenorm/text/added_tokens.h"
#include "prenorm/text/bpe_merges.h"
#include "prenorm/text/bpe_model.h"
#include "prenorm/text/tokenizer.h"

namespace prenorm {

class BpeTokenizer : public Tokenizer {
 public:
  // Throws FormatError as BpeModel::validate() does.
  explicit BpeTokenizer(BpeModel model);

  using Tokenizer::decode;
  // Special tokens in the text are plain text; added tokens that are not special are found. Throws
  // EncodeError for a byte that the vocabulary has no token for (GPT-2's has all).
  std::vector<TokenId> encode(std::string_view text) const override;
  std::vector<TokenId> encode_with_special_tokens(std::string_view text) const override;
  std::string decode(std::span<const TokenId> ids) const override;
  Index vocab_size() const override { return static_cast<Index>(model_.tokens.size()); }
  std::string_view kind() const override { return "bpe"; }
  bool needs_utf8() const override { return false; }
  void save(const std::filesystem::path& folder) const override;

  const BpeModel& model() const { return model_; }
  // The exact bytes of a token. Requires: 0 <= id < vocab_size().
  std::string_view token_bytes(TokenId id) const;

 private:
  std::vector<TokenId> encode(std::string_view text, bool special) const;

  BpeModel model_;
  BpeMerges merges_;
  AddedTokens added_tokens_;
  std::array<TokenId, 256> byte_ids_;  // -1: no token
  std::string bytes_;                  // of all tokens, one after another
  std::vector<std::size_t> begin_;     // in bytes_, [vocab_size + 1]
};

// Of what read_bpe_model() reads: tokenizer.json; vocab.json with merges.txt; encoder.json with
// vocab.bpe. Throws IoError; FormatError naming the file.
std::unique_ptr<BpeTokenizer> load_bpe_tokenizer(const std::filesystem::path& folder);

}  // namespace prenorm
