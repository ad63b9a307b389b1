#include "prenorm/text/byte_level.h"

#include <gtest/gtest.h>

#include <set>

namespace prenorm {
namespace {

TEST(ByteLevel, every_byte_has_a_symbol_of_its_own) {
  const std::set<char32_t> symbols(kByteLevelAlphabet.begin(), kByteLevelAlphabet.end());
  EXPECT_EQ(symbols.size(), 256u);
}

TEST(ByteLevel, printable_bytes_stand_for_themselves_and_the_others_for_letters_from_u0100) {
  EXPECT_EQ(kByteLevelAlphabet['A'], U'A');
  EXPECT_EQ(kByteLevelAlphabet['~'], U'~');
  EXPECT_EQ(kByteLevelAlphabet[0xFF], 0xFFu);
  EXPECT_EQ(kByteLevelAlphabet[0], 0x100u);
  EXPECT_EQ(kByteLevelAlphabet[' '], 0x120u);  // as GPT-2's vocabulary spells a space
  EXPECT_EQ(kByteLevelAlphabet['\n'], 0x10Au);
  EXPECT_EQ(kByteLevelAlphabet[0xAD], 0x143u);  // the last of them
}

TEST(ByteLevel, every_byte_is_spelled_and_read_back) {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes += static_cast<char>(byte);
  const std::string spelled = byte_level_spelling(bytes);
  EXPECT_EQ(byte_level_spelling(" a\n"),
            "\xC4\xA0"
            "a\xC4\x8A");
  std::string back = ">";
  EXPECT_TRUE(append_byte_level_bytes(back, spelled));
  EXPECT_EQ(back, ">" + bytes);
}

TEST(ByteLevel, characters_outside_the_alphabet_append_nothing) {
  // A blank, the code point after the last, one far away, a byte that is not UTF-8.
  for (const char* text : {"a ", "a\xC5\x84", "a\xE4\xB8\xAD", "a\xFF"}) {
    std::string out = ">";
    EXPECT_FALSE(append_byte_level_bytes(out, text));
    EXPECT_EQ(out, ">");
  }
}

}  // namespace
}  // namespace prenorm
