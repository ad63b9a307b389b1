// Text to token ids and back.
//
//   const std::unique_ptr<Tokenizer> tokenizer = load_tokenizer("RUN");
//   std::vector<TokenId> ids = tokenizer->encode("To be");
//   std::string text = tokenizer->decode(ids);
//
// A tokenizer is saved as Hugging Face's tokenizer.json and tokenizer_config.json, which
// AutoTokenizer.from_pretrained loads and which encode and decode as ours do.
#pragma once
#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "prenorm/base/error.h"
#include "prenorm/base/index.h"

namespace prenorm {

// Text that a tokenizer cannot encode. The message is
// `SOURCE: expected <expected>, found <found> at byte <offset>`.
struct EncodeError : DataError {
  EncodeError(std::string_view source, std::size_t byte_offset, std::string what_expected,
              std::string what_found);
  std::size_t offset;
  std::string expected, found;
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Throws EncodeError (a DataError) naming the byte offset and the character.
  // Special tokens (<|endoftext|>) in the text are plain text.
  virtual std::vector<TokenId> encode(std::string_view text) const = 0;
  // The same, but special tokens in the text become their ids: for text that one trusts.
  virtual std::vector<TokenId> encode_with_special_tokens(std::string_view text) const {
    return encode(text);
  }
  // The exact bytes; a token need not be a whole character. Throws DataError for an id outside the
  // vocabulary.
  virtual std::string decode(std::span<const TokenId> ids) const = 0;
  virtual Index vocab_size() const = 0;
  virtual std::string_view kind() const = 0;  // "byte", "char", "bpe"
  // Whether the text must be UTF-8; otherwise any bytes will do.
  virtual bool needs_utf8() const = 0;
  // Writes tokenizer.json and tokenizer_config.json durably. Throws IoError.
  virtual void save(const std::filesystem::path& folder) const = 0;

  std::string decode(TokenId id) const;
};

// Reads what save() wrote, also after transformers has saved it again, and a folder that holds
// GPT-2's vocab.json and merges.txt.
// Throws IoError; FormatError naming the file, also for a tokenizer of another kind.
std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& folder);

// Whether the folder has any of the files that load_tokenizer() looks for.
bool has_tokenizer(const std::filesystem::path& folder);

}  // namespace prenorm
