#include "prenorm/text/bert_normalizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace prenorm {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(BertNormalizer, words_end_at_blanks_and_around_punctuation) {
  EXPECT_THAT(bert_words(" Hello,\tworld!\r\n", {}), ElementsAre("hello", ",", "world", "!"));
  EXPECT_THAT(bert_words("a--b", {}), ElementsAre("a", "-", "-", "b"));
  EXPECT_THAT(bert_words("\u3000 \u00A0", {}), IsEmpty());
}

TEST(BertNormalizer, accents_and_capitals_go_and_hangul_falls_into_its_letters) {
  EXPECT_THAT(bert_words("Ça VÉLO \u0130x", {}), ElementsAre("ca", "velo", "ix"));
  EXPECT_EQ(bert_normalize("\uAC01", {}), U"\u1100\u1161\u11A8");
  BertNormalization how;
  how.strip_accents = false;
  EXPECT_THAT(bert_words("ÇA \u0130", how), ElementsAre("ça", "i\u0307"));
  how.lowercase = false;
  EXPECT_THAT(bert_words("ÇA", how), ElementsAre("ÇA"));
}

TEST(BertNormalizer, controls_and_bytes_that_are_no_text_are_dropped) {
  using std::string_view_literals::operator""sv;
  EXPECT_THAT(bert_words("a\0b\x01 c\xFF\u200Bd\uFFFD"sv, {}), ElementsAre("ab", "cd"));
}

TEST(BertNormalizer, chinese_characters_are_words_of_their_own) {
  EXPECT_THAT(bert_words("a東京b", {}), ElementsAre("a", "東", "京", "b"));
  BertNormalization how;
  how.handle_chinese_chars = false;
  EXPECT_THAT(bert_words("a東京b", how), ElementsAre("a東京b"));
}

// U+302E has the combining class 224, U+1D165 216.
TEST(BertNormalizer, marks_that_stay_come_in_canonical_order) {
  EXPECT_EQ(bert_normalize("a\u302E\U0001D165", {}), U"a\U0001D165\u302E");
}

}  // namespace
}  // namespace prenorm
