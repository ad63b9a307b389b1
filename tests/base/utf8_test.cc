#include "prenorm/base/utf8.h"

#include <gtest/gtest.h>

#include <vector>

namespace prenorm {
namespace {

TEST(Utf8, every_code_point_is_written_and_read_back) {
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c == 0xD800) c = 0xE000;
    std::string text;
    append_utf8(text, c);
    const Utf8Step step = utf8_step(text);
    ASSERT_TRUE(step.valid) << static_cast<unsigned>(c);
    ASSERT_EQ(step.code_point, c);
    ASSERT_EQ(step.length, text.size());
  }
}

// Every string of up to three bytes: a character is valid just when writing its code point gives
// the same bytes back, which leaves no overlong form or surrogate in.
TEST(Utf8, what_is_accepted_is_what_the_encoder_writes) {
  int accepted = 0;
  for (unsigned n = 0; n < 1u << 24; n += n < 0x10000 ? 1 : 37) {
    std::string text{static_cast<char>(n), static_cast<char>(n >> 8), static_cast<char>(n >> 16)};
    const Utf8Step step = utf8_step(text);
    ASSERT_GE(step.length, 1u);
    if (!step.valid) continue;
    std::string again;
    append_utf8(again, step.code_point);
    ASSERT_EQ(again, text.substr(0, step.length));
    ASSERT_FALSE(step.code_point >= 0xD800 && step.code_point <= 0xDFFF);
    ++accepted;
  }
  EXPECT_GT(accepted, 1000);
}

struct Ill {
  const char* name;
  std::string text;
  std::size_t length;
  bool incomplete;
};

TEST(Utf8, ill_formed_bytes_end_where_the_standard_says) {
  const std::vector<Ill> table = {
      {"a lone continuation byte",
       "\x80"
       "a",
       1, false},
      {"an overlong NUL", "\xC0\x80", 1, false},
      {"an overlong slash in three bytes", "\xE0\x80\xAF", 1, false},
      {"a surrogate", "\xED\xA0\x80", 1, false},
      {"above U+10FFFF", "\xF4\x90\x80\x80", 1, false},
      {"a byte that is in no character", "\xFF", 1, false},
      {"a character cut short by a letter", "\xF0\x9F\x98z", 3, false},
      {"a character cut short by the end", "\xF0\x9F\x98", 3, true},
      {"two bytes of three", "\xE2\x82", 2, true},
      {"a leading byte alone", "\xC3", 1, true},
  };
  for (const Ill& ill : table) {
    const Utf8Step step = utf8_step(ill.text);
    EXPECT_FALSE(step.valid) << ill.name;
    EXPECT_EQ(step.length, ill.length) << ill.name;
    EXPECT_EQ(step.incomplete, ill.incomplete) << ill.name;
  }
}

TEST(Utf8, the_first_ill_formed_byte_is_found) {
  EXPECT_EQ(find_invalid_utf8("it\x92s"), 2u);
  EXPECT_EQ(find_invalid_utf8("a\xC3\xA9\xF0\x9F\x98\x80\xE2\x82"), 7u);
  EXPECT_EQ(find_invalid_utf8("a\xC3\xA9\xF0\x9F\x98\x80"), std::nullopt);
  EXPECT_EQ(find_invalid_utf8(""), std::nullopt);
}

TEST(Utf8, only_an_unfinished_character_at_the_end_counts_as_incomplete) {
  EXPECT_EQ(incomplete_utf8_suffix(""), 0u);
  EXPECT_EQ(incomplete_utf8_suffix("a"), 0u);
  EXPECT_EQ(incomplete_utf8_suffix("a\xF0"), 1u);
  EXPECT_EQ(incomplete_utf8_suffix("a\xF0\x9F"), 2u);
  EXPECT_EQ(incomplete_utf8_suffix("a\xF0\x9F\x98"), 3u);
  EXPECT_EQ(incomplete_utf8_suffix("a\xF0\x9F\x98\x80"), 0u);
  EXPECT_EQ(incomplete_utf8_suffix("\x80\x80\x80\x80"), 0u);
  EXPECT_EQ(incomplete_utf8_suffix("\xC0"), 0u);
}

TEST(Utf8, each_ill_formed_part_becomes_one_replacement_character) {
  EXPECT_EQ(to_valid_utf8("it\x92s"), "it\xEF\xBF\xBDs");
  EXPECT_EQ(to_valid_utf8("\xF0\x9F\x98z\xFF\xFF"), "\xEF\xBF\xBDz\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(to_valid_utf8("caf\xC3\xA9"), "caf\xC3\xA9");
}

TEST(Utf8, characters_and_text_are_described_on_one_line) {
  EXPECT_EQ(describe_character(0xE9), "'\xC3\xA9' (U+00E9)");
  EXPECT_EQ(describe_character('\n'), "U+000A");
  EXPECT_EQ(describe_character(0x1F600), "'\xF0\x9F\x98\x80' (U+1F600)");
  EXPECT_EQ(describe_character(0xFEFF), "U+FEFF");
  EXPECT_EQ(printable("a b\n\x92\xC3\xA9"), "a b\\x0A\\x92\xC3\xA9");
  EXPECT_EQ(printable("abcdef", 3), "abc...");
  EXPECT_EQ(printable(std::string_view("\0", 1)), "\\x00");
}

}  // namespace
}  // namespace prenorm
