// UTF-8 as the Unicode standard defines it (table 3-7: no overlong forms, no surrogates, nothing
// above U+10FFFF).
//
//   while (!text.empty()) {
//     const Utf8Step step = utf8_step(text);
//     if (!step.valid) ...                       // step.length bytes are not UTF-8
//     text.remove_prefix(step.length);
//   }
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace prenorm {

inline constexpr char32_t kReplacementCharacter = 0xFFFD;
inline constexpr std::string_view kUtf8ByteOrderMark = "\xEF\xBB\xBF";

struct Utf8Step {
  char32_t code_point = kReplacementCharacter;  // U+FFFD where the bytes are not UTF-8
  std::size_t length = 0;  // bytes of the character, or of the maximal ill-formed part
  bool valid = false;
  bool incomplete = false;  // ill-formed only because the text ends too early
};

// The first character. Requires: text is not empty.
Utf8Step utf8_step(std::string_view text);

// Byte offset of the first ill-formed byte, or nothing if the text is UTF-8.
std::optional<std::size_t> find_invalid_utf8(std::string_view text);

// Number of bytes at the end that begin a character and do not finish it (0 to 3).
std::size_t incomplete_utf8_suffix(std::string_view text);

void append_utf8(std::string& out, char32_t code_point);

// The text with each maximal ill-formed part replaced by U+FFFD, as browsers and Python do.
std::string to_valid_utf8(std::string_view text);

// A character for an error message: 'é' (U+00E9), or U+000A alone where it does not print.
std::string describe_character(char32_t code_point);

// Text for a one-line message: control characters and ill-formed bytes escaped as \xNN, cut to
// `limit` bytes with "..." where longer.
std::string printable(std::string_view text, std::size_t limit = 80);

}  // namespace prenorm
