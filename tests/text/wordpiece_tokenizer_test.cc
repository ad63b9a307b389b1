#include "prenorm/text/wordpiece_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "prenorm/base/error.h"
#include "prenorm/base/file.h"
#include "tests/temporary_folder.h"

namespace prenorm {
namespace {

using testing::ElementsAre;
using Ids = std::vector<TokenId>;

constexpr const char* kVocabulary =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nun\n##aff\n##able\naff\n##a\n[\nmask\n]\né\n##é\n";

class WordPiece : public testing::Test {
 protected:
  WordPiece() { write_file_durably(folder_.path() / "vocab.txt", kVocabulary); }
  TemporaryFolder folder_{"wordpiece"};
};

TEST_F(WordPiece, words_are_cut_into_the_longest_pieces_from_the_left) {
  const auto t = load_wordpiece_tokenizer(folder_.path());
  EXPECT_THAT(t->encode("Unaffable aff"), ElementsAre(5, 6, 7, 8));
  EXPECT_THAT(t->encode("unaffx un"), ElementsAre(1, 5));  // all of a word, or none of it
  EXPECT_THAT(t->encode(""), ElementsAre());
  EXPECT_EQ(t->decode(Ids{5, 6, 7, 8}), "unaffable aff");
  EXPECT_THROW(t->decode(Ids{15}), DataError);
}

TEST_F(WordPiece, a_word_of_more_than_a_hundred_characters_is_unknown) {
  const auto t = load_wordpiece_tokenizer(folder_.path());
  const auto word = [](int more) {
    std::string text = "un";
    for (int i = 0; i < more; ++i) text += "a";
    return text;
  };
  EXPECT_EQ(t->encode(word(98)).size(), 99u);
  EXPECT_THAT(t->encode(word(99)), ElementsAre(1));
}

TEST_F(WordPiece, special_tokens_are_text_unless_asked_for) {
  const auto t = load_wordpiece_tokenizer(folder_.path());
  EXPECT_THAT(t->encode("[MASK]"), ElementsAre(10, 11, 12));
  EXPECT_THAT(t->encode_with_special_tokens("un[MASK]aff"), ElementsAre(5, 4, 8));
}

TEST_F(WordPiece, the_frame_is_kept_where_a_text_is_cut) {
  const auto t = load_wordpiece_tokenizer(folder_.path());
  EXPECT_THAT(t->with_frame({5, 6, 7}, 5), ElementsAre(2, 5, 6, 7, 3));
  EXPECT_THAT(t->with_frame({5, 6, 7}, 4), ElementsAre(2, 5, 6, 3));
  EXPECT_THAT(t->with_frame({}, 4), ElementsAre(2, 3));
}

TEST_F(WordPiece, flags_of_tokenizer_config_count) {
  write_file_durably(folder_.path() / "tokenizer_config.json", R"({"strip_accents": false})");
  EXPECT_THAT(load_wordpiece_tokenizer(folder_.path())->encode("éÉ"), ElementsAre(13, 14));
  write_file_durably(folder_.path() / "tokenizer_config.json", R"({"do_lower_case": false})");
  EXPECT_THAT(load_wordpiece_tokenizer(folder_.path())->encode("éÉ"), ElementsAre(1));
  write_file_durably(folder_.path() / "tokenizer_config.json", R"({"do_basic_tokenize": false})");
  EXPECT_THROW(load_wordpiece_tokenizer(folder_.path()), FormatError);
}

TEST_F(WordPiece, what_is_saved_loads_to_the_same_model) {
  const auto t = load_wordpiece_tokenizer(folder_.path());
  const TemporaryFolder saved("saved");
  t->save(saved.path());
  const std::unique_ptr<Tokenizer> again = load_tokenizer(saved.path());
  EXPECT_EQ(again->kind(), "wordpiece");
  EXPECT_EQ(again->encode_with_special_tokens("Unaffable [MASK]"), (Ids{5, 6, 7, 4}));
}

TEST(WordPieceModel, a_token_twice_and_a_missing_special_token_are_refused) {
  WordPieceModel model;
  model.tokens = {"[UNK]", "[CLS]", "[SEP]", "a"};
  model.validate("x");
  model.tokens.push_back("a");
  EXPECT_THROW(model.validate("x"), FormatError);
  model.tokens = {"[UNK]", "[CLS]"};
  EXPECT_THROW(model.validate("x"), FormatError);
}

}  // namespace
}  // namespace prenorm
