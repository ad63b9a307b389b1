#include "prenorm/text/unicode_classes.h"

#include <gtest/gtest.h>

#include <array>

namespace prenorm {
namespace {

using enum CharacterClass;

TEST(UnicodeClasses, letters_numbers_and_white_space_are_those_of_the_standard) {
  for (const char32_t c : {U'a', U'Z', U'\u00AA', U'\u00E9', U'\u0434', U'\u4E2D', U'\uAC00',
                           U'\u0E01', U'\U0001D400', U'\U000323AF'}) {
    EXPECT_EQ(character_class(c), kLetter) << std::hex << static_cast<unsigned>(c);
  }
  for (const char32_t c :
       {U'0', U'9', U'\u00B2', U'\u00BD', U'\u0660', U'\u2167', U'\u3007', U'\U0001D7CE'}) {
    EXPECT_EQ(character_class(c), kNumber) << std::hex << static_cast<unsigned>(c);
  }
  for (const char32_t c :
       {U' ', U'\t', U'\n', U'\v', U'\f', U'\r', U'\u0085', U'\u00A0', U'\u1680', U'\u2000',
        U'\u200A', U'\u2028', U'\u2029', U'\u202F', U'\u205F', U'\u3000'}) {
    EXPECT_EQ(character_class(c), kSpace) << std::hex << static_cast<unsigned>(c);
  }
}

TEST(UnicodeClasses, marks_signs_controls_and_the_unassigned_are_others) {
  for (const char32_t c : {U'!', U'\'', U'_', U'\0', U'\u001C', U'\u00D7', U'\u0301', U'\u0903',
                           U'\u200D', U'\uFFFD', U'\U0001F600', U'\u0378', U'\U000323B0'}) {
    EXPECT_EQ(character_class(c), kOther) << std::hex << static_cast<unsigned>(c);
  }
  EXPECT_EQ(character_class(0x10FFFF), kOther);
  EXPECT_EQ(character_class(0xD800), kOther);
  EXPECT_EQ(character_class(0xFFFFFFFF), kOther);
}

TEST(UnicodeClasses, invisible_characters_that_once_were_white_space_are_none) {
  EXPECT_EQ(character_class(0x180E), kOther);  // Mongolian vowel separator, until Unicode 6.2
  EXPECT_EQ(character_class(0x200B), kOther);  // zero width space, until Unicode 4.0
  EXPECT_EQ(character_class(0xFEFF), kOther);
}

// U+1C89 and U+105C0 came with Unicode 16, U+2FFC is a symbol of Unicode 15.1.
TEST(UnicodeClasses, the_version_is_16) {
  EXPECT_EQ(character_class(0x1C89), kLetter);
  EXPECT_EQ(character_class(0x105C0), kLetter);
  EXPECT_EQ(character_class(0x2FFC), kOther);
  std::array<int, 4> counts{};
  for (char32_t c = 0; c < 0x110000; ++c) ++counts[static_cast<std::size_t>(character_class(c))];
  EXPECT_EQ(counts[1], 141028);
  EXPECT_EQ(counts[2], 1911);
  EXPECT_EQ(counts[3], 25);
}

}  // namespace
}  // namespace prenorm
