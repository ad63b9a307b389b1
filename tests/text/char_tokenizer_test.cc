#include "prenorm/text/char_tokenizer.h"

#include "tests/text/tokenizer_folder.h"

namespace prenorm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

using CharTokenizerTest = TokenizerFolder;

TEST_F(CharTokenizerTest, ids_follow_the_sorted_code_points) {
  const CharTokenizer tokenizer = CharTokenizer::from_text(
      "ba\n\xC3\xA9\xF0\x9F\x98\x80"
      "b");
  EXPECT_THAT(tokenizer.vocabulary(), ElementsAre('\n', 'a', 'b', 0xE9, 0x1F600));
  EXPECT_THAT(tokenizer.encode("\xF0\x9F\x98\x80\xC3\xA9"
                               "ab\n"),
              ElementsAre(4, 3, 1, 2, 0));
  EXPECT_EQ(tokenizer.vocab_size(), 5);
  EXPECT_TRUE(tokenizer.needs_utf8());
}

TEST_F(CharTokenizerTest, text_round_trips_and_line_ends_stay) {
  const CharTokenizer tokenizer = CharTokenizer::from_text(kText);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(kText)), kText);
  EXPECT_EQ(tokenizer.encode("\r\n").size(), 2u);
}

TEST_F(CharTokenizerTest, an_unseen_character_is_named_with_its_byte) {
  const CharTokenizer tokenizer = CharTokenizer::from_text("abc\xC3\xB6");
  EXPECT_THAT([&] { tokenizer.encode("a\xC3\xB6\xC3\xA9"); },
              ThrowsMessage<DataError>("text: expected a character of the vocabulary (4 "
                                       "characters), found '\xC3\xA9' (U+00E9) at byte 3"));
  EXPECT_THAT([&] { tokenizer.encode("ab\n"); },
              ThrowsMessage<DataError>(HasSubstr("found U+000A at byte 2")));
}

TEST_F(CharTokenizerTest, bytes_that_are_not_utf8_are_named) {
  const CharTokenizer tokenizer = CharTokenizer::from_text("its");
  EXPECT_THAT([&] { tokenizer.encode("it\x92s"); },
              ThrowsMessage<EncodeError>("text: expected UTF-8, found '\\x92' at byte 2"));
  EXPECT_THROW(CharTokenizer::from_text("it\x92s"), EncodeError);
  EXPECT_THROW(CharTokenizer::from_text(""), DataError);
}

TEST_F(CharTokenizerTest, an_id_outside_the_vocabulary_is_named) {
  const CharTokenizer tokenizer = CharTokenizer::from_text("abc");
  EXPECT_THAT([&] { tokenizer.decode(TokenId{3}); },
              ThrowsMessage<DataError>("token id: expected 0 to 2, found 3"));
  EXPECT_THROW(tokenizer.decode(TokenId{-1}), DataError);
}

TEST_F(CharTokenizerTest, a_vocabulary_has_each_character_once) {
  EXPECT_THROW(CharTokenizer({'a', 'b', 'a'}), DataError);
  EXPECT_THROW(CharTokenizer({0xD800}), DataError);
  EXPECT_THROW(CharTokenizer({0x110000}), DataError);
  EXPECT_THROW(CharTokenizer(std::vector<char32_t>{}), DataError);
}

TEST_F(CharTokenizerTest, loads_back_from_its_folder_with_the_same_ids) {
  const CharTokenizer tokenizer = CharTokenizer::from_text(kText + std::string(1, '\0') + "\"\\");
  tokenizer.save(path_);
  const auto loaded = load_tokenizer(path_);
  EXPECT_EQ(loaded->kind(), "char");
  EXPECT_EQ(loaded->vocab_size(), tokenizer.vocab_size());
  EXPECT_EQ(loaded->encode(kText), tokenizer.encode(kText));
}

TEST_F(CharTokenizerTest, a_vocabulary_need_not_be_sorted_to_load) {
  CharTokenizer({'b', 'a'}).save(path_);
  EXPECT_THAT(load_tokenizer(path_)->encode("ab"), ElementsAre(1, 0));
}

}  // namespace
}  // namespace prenorm
