// Training text: files and pipes as bytes, then as tokens for training and validation.
//
//   const Text text = read_text({"a.txt", "-"}, TextEncoding::kUtf8);
//   const Corpus corpus = make_corpus(text, tokenizer, {.block_size = 64});
//   const TokenWindow w = token_window(corpus.train, start, 64);
//
// Line ends stay as they are. Files follow each other without anything in between.
#pragma once
#include <cstddef>
#include <iosfwd>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "prenorm/base/index.h"
#include "prenorm/text/tokenizer.h"

namespace prenorm {

enum class TextEncoding {
  kBytes,  // any bytes, kept one for one, byte-order marks too
  kUtf8,   // checked; a UTF-8 byte-order mark at a file's start is dropped with a notice
};

struct Text {
  struct File {
    std::string name;         // "-" is shown as "standard input"
    std::size_t begin;        // in Text::bytes
    std::size_t skipped = 0;  // bytes of a dropped byte-order mark
  };
  std::string bytes;
  std::vector<File> files;
  std::vector<std::string> notices;  // one line each, for the user to see

  // "NAME" and the offset inside that file of a byte of this text.
  std::pair<std::string, std::size_t> locate(std::size_t offset) const;
};

// Reads files in the order given; "-" is `standard_input` (std::cin by default), once.
// Throws IoError; DataError for an empty file, and with kUtf8 for a file that is not UTF-8, naming
// the byte's offset and a UTF-16 or UTF-32 byte-order mark where there is one.
Text read_text(std::span<const std::string> paths, TextEncoding encoding);
Text read_text(std::span<const std::string> paths, TextEncoding encoding,
               std::istream& standard_input);

// tokenizer.encode(text.bytes), with the file and the offset in it in the DataError.
std::vector<TokenId> encode_text(const Text& text, const Tokenizer& tokenizer);

struct CorpusOptions {
  Index block_size = 1024;           // context length T
  double validation_fraction = 0.1;  // of the characters (UTF-8) or bytes, at the end of the text
};

struct Corpus {
  std::vector<TokenId> train, validation;  // validation is empty or longer than the context
  std::vector<std::string> notices;
};

// Splits and encodes. Where the held-out part would be shorter than one window (T + 1 tokens),
// there is no validation, all text is for training, and a notice says so. Throws DataError when the
// training part is shorter than one window; ConfigError for options out of range.
Corpus make_corpus(const Text& text, const Tokenizer& tokenizer, const CorpusOptions& options);

// T inputs and, one further, their T targets.
struct TokenWindow {
  std::span<const TokenId> inputs, targets;
};

// Number of windows of N tokens: N − T, or 0 where there is none.
Index token_window_count(Index tokens, Index block_size);
// Requires: 0 <= start < token_window_count(tokens.size(), block_size).
TokenWindow token_window(std::span<const TokenId> tokens, Index start, Index block_size);

}  // namespace prenorm
