#include "prenorm/text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <numeric>

#include "prenorm/base/file.h"
#include "prenorm/base/json.h"
#include "prenorm/text/byte_tokenizer.h"
#include "prenorm/text/char_tokenizer.h"

namespace prenorm {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// Spaces, tab, CRLF, a combining mark, a character beyond the basic plane, no-break space.
const std::string kText = "Hello  \t\r\n w\xC3\xB6rld \xF0\x9F\x98\x80 e\xCC\x81 \xC2\xA0?\n\n";

class Folder : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "prenorm-tokenizer-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    path_ = name;
  }
  void TearDown() override { fs::remove_all(path_); }

  // Changes one of the saved files.
  template <typename F>
  void edit(const char* file, F change) {
    Json json = parse_json(read_file(path_ / file), file);
    change(json);
    write_file_durably(path_ / file, dump_json(json));
  }

  fs::path path_;
};
using ByteTokenizerTest = Folder;
using CharTokenizerTest = Folder;
using LoadTokenizer = Folder;

TEST_F(ByteTokenizerTest, ids_are_the_byte_values_and_every_byte_round_trips) {
  std::string all(256, '\0');
  std::iota(all.begin(), all.end(), '\0');
  const ByteTokenizer tokenizer;
  const std::vector<TokenId> ids = tokenizer.encode(all);
  ASSERT_EQ(ids.size(), 256u);
  for (TokenId i = 0; i < 256; ++i) EXPECT_EQ(ids[static_cast<std::size_t>(i)], i);
  EXPECT_EQ(tokenizer.decode(ids), all);
  EXPECT_EQ(tokenizer.decode(TokenId{65}), "A");
  EXPECT_EQ(tokenizer.vocab_size(), 256);
}

TEST_F(ByteTokenizerTest, an_id_outside_the_vocabulary_is_named) {
  EXPECT_THAT([] { ByteTokenizer().decode(TokenId{256}); },
              ThrowsMessage<DataError>("token id: expected 0 to 255, found 256"));
  EXPECT_THROW(ByteTokenizer().decode(TokenId{-1}), DataError);
}

TEST_F(ByteTokenizerTest, loads_back_from_its_folder) {
  ByteTokenizer().save(path_);
  const auto loaded = load_tokenizer(path_);
  EXPECT_EQ(loaded->kind(), "byte");
  EXPECT_FALSE(loaded->needs_utf8());
  EXPECT_EQ(loaded->encode("a\xFF"), (std::vector<TokenId>{97, 255}));
}

// The table of GPT-2's encoder: 'Ġ' is a space, 'Ċ' a newline, 'Ń' byte 0xAD, the last one.
TEST_F(ByteTokenizerTest, its_file_spells_bytes_as_gpt2_does) {
  ByteTokenizer().save(path_);
  const Json json = parse_json(read_file(path_ / "tokenizer.json"), "x");
  const Json& vocab = json["model"]["vocab"];
  EXPECT_EQ(vocab.size(), 256u);
  EXPECT_EQ(vocab["\xC4\xA0"], 32);
  EXPECT_EQ(vocab["\xC4\x8A"], 10);
  EXPECT_EQ(vocab["\xC5\x83"], 173);
  EXPECT_EQ(vocab["!"], 33);
  EXPECT_EQ(vocab["\xC3\xBF"], 255);
}

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

TEST_F(LoadTokenizer, the_kind_is_in_the_file_itself) {
  CharTokenizer::from_text("abc").save(path_);
  fs::remove(path_ / "tokenizer_config.json");
  EXPECT_EQ(load_tokenizer(path_)->kind(), "char");
}

// transformers adds a post-processor that does nothing and renames the class.
TEST_F(LoadTokenizer, what_transformers_saves_again_is_accepted) {
  ByteTokenizer().save(path_);
  edit("tokenizer.json", [](Json& json) {
    json["post_processor"] = {{"type", "TemplateProcessing"}, {"special_tokens", Json::object()}};
  });
  edit("tokenizer_config.json", [](Json& json) { json["tokenizer_class"] = "TokenizersBackend"; });
  EXPECT_EQ(load_tokenizer(path_)->kind(), "byte");
}

TEST_F(LoadTokenizer, a_missing_or_broken_file_is_named) {
  EXPECT_THAT([&] { load_tokenizer(path_); },
              ThrowsMessage<IoError>(HasSubstr("tokenizer.json: expected a readable file")));
  write_file_durably(path_ / "tokenizer.json", "{\"model\": ");
  EXPECT_THAT([&] { load_tokenizer(path_); },
              ThrowsMessage<FormatError>(HasSubstr("tokenizer.json: expected JSON")));
}

TEST_F(LoadTokenizer, other_tokenizers_are_refused_with_what_they_are) {
  const auto refused = [&](const char* says, auto change) {
    CharTokenizer::from_text("abc").save(path_);
    edit("tokenizer.json", change);
    EXPECT_THAT([&] { load_tokenizer(path_); }, ThrowsMessage<FormatError>(HasSubstr(says)));
  };
  refused("a model of type \"Unigram\"", [](Json& j) { j["model"]["type"] = "Unigram"; });
  refused("found 1 merges", [](Json& j) { j["model"]["merges"] = {"a b"}; });
  refused("without normalizer", [](Json& j) { j["normalizer"] = {{"type", "NFC"}}; });
  refused("without added_tokens", [](Json& j) { j["added_tokens"].push_back({{"id", 3}}); });
  refused("tokens of one character, found 'ab'", [](Json& j) { j["model"]["vocab"]["ab"] = 3; });
  refused("tokens of one character, found ''", [](Json& j) { j["model"]["vocab"][""] = 3; });
  refused("ids 0 to 3, each once, found 2 for 'd'", [](Json& j) { j["model"]["vocab"]["d"] = 2; });
  refused("found 9 for 'c'", [](Json& j) { j["model"]["vocab"]["c"] = 9; });
  refused("found -1 for 'c'", [](Json& j) { j["model"]["vocab"]["c"] = -1; });
  refused("a vocabulary", [](Json& j) { j["model"]["vocab"] = Json::object(); });
  refused("decoder 'ByteLevel'", [](Json& j) { j["decoder"]["type"] = "ByteLevel"; });
  refused("an object around 'type', found 7", [](Json& j) { j["model"] = 7; });
  refused("an object around 'model', found []", [](Json& j) { j = Json::array(); });
}

TEST_F(LoadTokenizer, a_byte_level_vocabulary_must_be_the_bytes_in_order) {
  ByteTokenizer().save(path_);
  edit("tokenizer.json", [](Json& j) {
    j["model"]["vocab"]["!"] = 34;
    j["model"]["vocab"]["\""] = 33;
  });
  EXPECT_THAT([&] { load_tokenizer(path_); },
              ThrowsMessage<FormatError>(HasSubstr("ids in the order of the bytes")));
  ByteTokenizer().save(path_);
  edit("tokenizer.json", [](Json& j) { j["pre_tokenizer"].erase("add_prefix_space"); });
  EXPECT_THAT([&] { load_tokenizer(path_); },
              ThrowsMessage<FormatError>(HasSubstr("add_prefix_space false")));
}

TEST_F(LoadTokenizer, files_that_disagree_are_refused) {
  ByteTokenizer().save(path_);
  edit("tokenizer_config.json", [](Json& json) { json["prenorm_tokenizer"] = "char"; });
  EXPECT_THAT([&] { load_tokenizer(path_); },
              ThrowsMessage<FormatError>(HasSubstr(
                  "expected a char tokenizer as tokenizer_config.json says, found a byte")));
}

}  // namespace
}  // namespace prenorm
