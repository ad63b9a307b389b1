#include "prenorm/text/tokenizer.h"

#include "prenorm/text/bpe_tokenizer.h"
#include "prenorm/text/byte_tokenizer.h"
#include "prenorm/text/char_tokenizer.h"
#include "tests/text/small_bpe.h"
#include "tests/text/tokenizer_folder.h"

namespace prenorm {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

using LoadTokenizer = TokenizerFolder;

// The table of GPT-2's encoder: 'Ġ' is a space, 'Ċ' a newline, 'Ń' byte 0xAD, the last one.

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

TEST_F(LoadTokenizer, a_byte_level_bpe_is_known_by_its_pattern_and_by_gpt2s_files) {
  BpeTokenizer(small_bpe()).save(path_);
  EXPECT_EQ(load_tokenizer(path_)->kind(), "bpe");
  edit("tokenizer.json", [](Json& j) { j["model"]["merges"] = Json::array(); });
  EXPECT_EQ(load_tokenizer(path_)->encode("the").size(), 3u);
  edit("tokenizer.json", [](Json& j) { j["normalizer"] = {{"type", "NFC"}}; });
  EXPECT_THAT([&] { load_tokenizer(path_); },
              ThrowsMessage<FormatError>(HasSubstr("tokenizer.json: expected a BPE without")));
  fs::remove(path_ / "tokenizer.json");
  write_file_durably(path_ / "vocab.json", R"({"a": 0, "b": 1, "ab": 2})");
  write_file_durably(path_ / "merges.txt", "a b\n");
  EXPECT_EQ(load_tokenizer(path_)->encode("abb"), (std::vector<TokenId>{2, 1}));
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
