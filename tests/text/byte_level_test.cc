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

}  // namespace
}  // namespace prenorm
