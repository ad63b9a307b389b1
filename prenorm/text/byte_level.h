// GPT-2's alphabet for bytes: a printable character stands for each byte, so that a vocabulary of
// byte strings can be kept as text. Printable Latin-1 characters stand for themselves, the other
// bytes for U+0100 and on, in ascending order (Radford et al. 2019, the encoder's byte table).
#pragma once
#include <array>
#include <cstddef>

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

}  // namespace prenorm
