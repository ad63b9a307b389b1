#include "prenorm/text/corpus.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <optional>

#include "prenorm/base/file.h"
#include "prenorm/base/utf8.h"

namespace prenorm {
namespace {

constexpr const char* kAdvice = "; convert it to UTF-8 or use the byte tokenizer";

// The byte-order mark of another encoding than UTF-8, if the text begins with one.
std::optional<std::string_view> foreign_byte_order_mark(std::string_view text) {
  using namespace std::string_view_literals;
  if (text.starts_with("\xFF\xFE\0\0"sv) || text.starts_with("\0\0\xFE\xFF"sv)) return "UTF-32";
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF")) return "UTF-16";
  return std::nullopt;
}

void check_utf8(std::string_view bytes, const std::string& name) {
  const std::string expected = name + ": expected UTF-8 text, found ";
  if (const auto mark = foreign_byte_order_mark(bytes)) {
    throw DataError(expected + "a " + std::string(*mark) + " byte-order mark at byte 0" + kAdvice);
  }
  if (const auto at = find_invalid_utf8(bytes)) {
    throw DataError(expected + "'" + printable(bytes.substr(*at, 1)) + "' at byte " +
                    std::to_string(*at) + kAdvice);
  }
}

// Adds one file's bytes to the text.
void append(Text& text, std::string name, std::string_view bytes, TextEncoding encoding) {
  Text::File file{std::move(name), text.bytes.size(), 0};
  if (encoding == TextEncoding::kUtf8) {
    check_utf8(bytes, file.name);
    if (bytes.starts_with(kUtf8ByteOrderMark)) {
      file.skipped = kUtf8ByteOrderMark.size();
      bytes.remove_prefix(file.skipped);
      text.notices.push_back(file.name + ": dropped the UTF-8 byte-order mark at its start");
    }
    if (const auto nuls = std::ranges::count(bytes, '\0'); nuls > 0) {
      text.notices.push_back(file.name + ": has " + std::to_string(nuls) +
                             " NUL characters; is it text?");
    }
  } else if (const auto mark = foreign_byte_order_mark(bytes)) {
    text.notices.push_back(file.name + ": begins with a " + std::string(*mark) +
                           " byte-order mark; its bytes are used as they are");
  }
  if (bytes.empty()) {
    throw DataError(file.name + ": expected text, found " +
                    (file.skipped > 0 ? "only a byte-order mark" : "an empty file"));
  }
  text.bytes += bytes;
  text.files.push_back(std::move(file));
}

std::vector<TokenId> encode_part(const Text& text, std::size_t begin, std::size_t end,
                                 const Tokenizer& tokenizer) {
  try {
    return tokenizer.encode(std::string_view(text.bytes).substr(begin, end - begin));
  } catch (const EncodeError& error) {
    const auto [name, offset] = text.locate(begin + error.offset);
    throw EncodeError(name, offset, error.expected, error.found);
  }
}

// Where the held-out part begins: after floor(n · (1 − fraction)) of the text's n characters, or
// bytes where the tokens are bytes. Text that is not UTF-8 is cut somewhere near.
std::size_t split_offset(const Text& text, const Tokenizer& tokenizer, double fraction) {
  const std::string& bytes = text.bytes;
  const auto begins_character = [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  };
  const bool characters = tokenizer.kind() != "byte";
  const auto n = characters
                     ? static_cast<std::size_t>(std::ranges::count_if(bytes, begins_character))
                     : bytes.size();
  const double kept = std::floor(static_cast<double>(n) * (1.0 - fraction));
  auto left = static_cast<std::size_t>(kept);
  if (!characters) return left;
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    if (begins_character(bytes[at]) && left-- == 0) return at;
  }
  return bytes.size();
}

std::string source_name(const Text& text) {
  return text.files.size() == 1 ? text.files[0].name : "data";
}

void check_options(const CorpusOptions& options) {
  if (options.block_size < 1) {
    throw ConfigError("block_size: expected 1 or more, found " +
                      std::to_string(options.block_size));
  }
  if (!(options.validation_fraction >= 0.0 && options.validation_fraction < 1.0)) {
    throw ConfigError("validation_fraction: expected 0 or more and less than 1, found " +
                      std::to_string(options.validation_fraction));
  }
}

std::string tokens_text(std::size_t n) {
  return std::to_string(n) + (n == 1 ? " token" : " tokens");
}

}  // namespace

std::pair<std::string, std::size_t> Text::locate(std::size_t offset) const {
  const auto after = std::ranges::upper_bound(files, offset, {}, &File::begin);
  if (after == files.begin()) return {"text", offset};
  const File& file = *std::prev(after);
  return {file.name, offset - file.begin + file.skipped};
}

Text read_text(std::span<const std::string> paths, TextEncoding encoding) {
  return read_text(paths, encoding, std::cin);
}

Text read_text(std::span<const std::string> paths, TextEncoding encoding,
               std::istream& standard_input) {
  if (paths.empty()) throw ConfigError("data: expected at least one file, found none");
  if (std::ranges::count(paths, "-") > 1) {
    throw ConfigError("data: expected '-' (standard input) once, found it twice");
  }
  Text text;
  for (const std::string& path : paths) {
    if (path == "-") {
      append(text, "standard input", read_stream(standard_input, "standard input"), encoding);
    } else {
      append(text, path, read_file(path), encoding);
    }
  }
  return text;
}

std::vector<TokenId> encode_text(const Text& text, const Tokenizer& tokenizer) {
  return encode_part(text, 0, text.bytes.size(), tokenizer);
}

Corpus make_corpus(const Text& text, const Tokenizer& tokenizer, const CorpusOptions& options) {
  check_options(options);
  const auto window = static_cast<std::size_t>(options.block_size) + 1;
  const std::string block_size = "block_size " + std::to_string(options.block_size);
  const std::size_t split = split_offset(text, tokenizer, options.validation_fraction);
  Corpus corpus;
  corpus.train = encode_part(text, 0, split, tokenizer);
  corpus.validation = encode_part(text, split, text.bytes.size(), tokenizer);
  const std::size_t total = corpus.train.size() + corpus.validation.size();
  if (corpus.validation.size() < window) {
    corpus.notices.push_back("no validation: " + tokens_text(corpus.validation.size()) +
                             " held out, " + block_size + " needs " + std::to_string(window) +
                             "; all " + std::to_string(total) + " are for training");
    corpus.train = encode_text(text, tokenizer);
    corpus.validation.clear();
  }
  if (corpus.train.size() < window) {
    throw DataError(source_name(text) + ": expected at least " + std::to_string(window) +
                    " tokens for training with " + block_size + ", found " +
                    std::to_string(corpus.train.size()) +
                    "; use a smaller block_size or more text");
  }
  return corpus;
}

Index token_window_count(Index tokens, Index block_size) {
  return std::max<Index>(tokens - block_size, 0);
}

TokenWindow token_window(std::span<const TokenId> tokens, Index start, Index block_size) {
  const auto from = static_cast<std::size_t>(start), n = static_cast<std::size_t>(block_size);
  return {tokens.subspan(from, n), tokens.subspan(from + 1, n)};
}

}  // namespace prenorm
