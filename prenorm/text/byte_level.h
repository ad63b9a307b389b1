// GPT-2's alphabet for bytes: a printable character stands for each byte, so that a vocabulary of
// byte strings can be kept as text. Printable Latin-1 characters stand for themselves, the other
// bytes for U+0100 and on, in ascending order (Radford et al. 2019, the encoder's byte table).
#pragma once
#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace prenorm {

constexpr std::array<char32_t, 256> make_byte_level_alphabet() {
  std::array<char32_t, 256> symbols{};
  char32_t next = 0x100;
  for (std::size_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
    symbols[byte] = printable ? static_cast<char32_t>(byte) : next++;
  }
  return symbols;
}

inline constexpr std::array<char32_t, 256> kByteLevelAlphabet = make_byte_level_alphabet();

// Appends the bytes that a token of such a vocabulary stands for. False, and nothing appended,
// where a character of it is not of the alphabet.
bool append_byte_level_bytes(std::string& out, std::string_view spelling);
// The other way round.
std::string byte_level_spelling(std::string_view bytes);

}  // namespace prenorm
