#include "prenorm/text/bpe_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "prenorm/base/error.h"
#include "tests/text/small_bpe.h"

namespace prenorm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(BpeJson, a_model_is_read_back_as_it_was_written) {
  BpeModel model = small_bpe();
  model.tokens.resize(266);
  model.added_tokens.push_back({"\xE6\x97\xA5 \n", 265, false, true});
  const Json json = tokenizer_json_of(model);
  EXPECT_TRUE(describes_bpe(json));
  EXPECT_EQ(json["model"]["vocab"].size(), 265u);
  EXPECT_EQ(json["model"]["merges"][2], "\xC4\xA0 the");
  const BpeModel back = bpe_model_of(json, "x");
  EXPECT_EQ(back.tokens, model.tokens);
  EXPECT_EQ(back.merges, model.merges);
  EXPECT_EQ(back.added_tokens, model.added_tokens);
}

TEST(BpeJson, merges_may_be_texts_or_pairs) {
  Json json = tokenizer_json_of(small_bpe());
  json["model"]["merges"] = {"t h", Json::array({"a", "a"})};
  EXPECT_THAT(bpe_model_of(json, "x").merges,
              ElementsAre(BpeMerge{'t', 'h', 256}, BpeMerge{'a', 'a', 259}));
}

TEST(BpeJson, tokens_with_blanks_are_written_so_that_they_are_read_back) {
  BpeModel model;
  model.tokens = {" ", "a", " a"};
  model.merges = {{0, 1, 2}};
  EXPECT_EQ(bpe_model_of(tokenizer_json_of(model), "x").merges, model.merges);
}

// The shapes in which GPT-2's file has gone around: empty texts for null, no type, no use_regex.
TEST(BpeJson, absent_members_mean_what_tokenizers_takes_them_for) {
  Json json = tokenizer_json_of(small_bpe());
  json["pre_tokenizer"].erase("use_regex");
  json["model"]["continuing_subword_prefix"] = "";
  json["model"]["end_of_word_suffix"] = "";
  for (const char* key : {"type", "dropout", "byte_fallback", "ignore_merges"}) {
    json["model"].erase(key);
  }
  json.erase("normalizer");
  json["post_processor"] = {{"type", "ByteLevel"}, {"trim_offsets", false}};
  EXPECT_TRUE(describes_bpe(json));
  EXPECT_EQ(bpe_model_of(json, "x").tokens, small_bpe().tokens);
}

TEST(BpeJson, what_would_encode_otherwise_is_refused_by_name) {
  const auto refused = [](const char* says, auto change) {
    Json json = tokenizer_json_of(small_bpe());
    change(json);
    EXPECT_THAT([&] { bpe_model_of(json, "f"); }, ThrowsMessage<FormatError>(HasSubstr(says)));
  };
  refused("f: expected type \"BPE\" in model, found \"Unigram\"",
          [](Json& j) { j["model"]["type"] = "Unigram"; });
  refused("dropout 0 in model, found 0.1", [](Json& j) { j["model"]["dropout"] = 0.1; });
  refused("ignore_merges false", [](Json& j) { j["model"]["ignore_merges"] = true; });
  refused("byte_fallback false", [](Json& j) { j["model"]["byte_fallback"] = true; });
  refused("end_of_word_suffix \"\"", [](Json& j) { j["model"]["end_of_word_suffix"] = "</w>"; });
  refused("continuing_subword_prefix \"\"",
          [](Json& j) { j["model"]["continuing_subword_prefix"] = "##"; });
  refused("without normalizer, found {\"type\":\"NFC\"}", [](Json& j) {
    j["normalizer"] = {{"type", "NFC"}};
  });
  refused("type \"ByteLevel\" in pre_tokenizer, found \"Whitespace\"",
          [](Json& j) { j["pre_tokenizer"]["type"] = "Whitespace"; });
  refused("in pre_tokenizer, found null", [](Json& j) { j["pre_tokenizer"] = nullptr; });
  refused("add_prefix_space false in pre_tokenizer, found true",
          [](Json& j) { j["pre_tokenizer"].erase("add_prefix_space"); });
  refused("use_regex true", [](Json& j) { j["pre_tokenizer"]["use_regex"] = false; });
  refused("type \"ByteLevel\" in decoder, found \"Fuse\"",
          [](Json& j) { j["decoder"]["type"] = "Fuse"; });
  refused("lstrip false in added_tokens, found true for '<|endoftext|>'",
          [](Json& j) { j["added_tokens"][0]["lstrip"] = true; });
  refused("special true or false", [](Json& j) { j["added_tokens"][0]["special"] = 1; });
}

TEST(BpeJson, tokens_ids_and_merges_that_do_not_fit_are_refused) {
  const auto refused = [](const char* says, auto change) {
    Json json = tokenizer_json_of(small_bpe());
    change(json);
    EXPECT_THAT([&] { bpe_model_of(json, "f"); }, ThrowsMessage<FormatError>(HasSubstr(says)));
  };
  refused("an object around 'model', found []", [](Json& j) { j = Json::array(); });
  refused("an object around 'type', found 7", [](Json& j) { j["model"] = 7; });
  refused("an object around 'type', found \"x\"", [](Json& j) { j["decoder"] = "x"; });
  refused("a vocabulary, found null", [](Json& j) { j["model"].erase("vocab"); });
  refused("a vocabulary, found {}", [](Json& j) { j["model"]["vocab"] = Json::object(); });
  refused("each id once, found 65 for 'A' and 'B'", [](Json& j) { j["model"]["vocab"]["B"] = 65; });
  refused("found 266 for 'B'", [](Json& j) { j["model"]["vocab"]["B"] = 266; });
  refused("found -1 for 'B'", [](Json& j) { j["model"]["vocab"]["B"] = -1; });
  refused("found 66.0 for 'B'", [](Json& j) { j["model"]["vocab"]["B"] = 66.0; });
  refused("found 18446744073709551615 for 'B'",
          [](Json& j) { j["model"]["vocab"]["B"] = ~std::uint64_t{0}; });
  refused("tokens that are not empty", [](Json& j) { j["model"]["vocab"][""] = 265; });
  refused("no token for 66", [](Json& j) {
    j["model"]["vocab"].erase("B");
    j["added_tokens"].push_back({{"id", 265}, {"content", "<pad>"}});
  });
  refused("a list of merges, found null", [](Json& j) { j["model"].erase("merges"); });
  refused("with a blank between them in a merge, found 'th'",
          [](Json& j) { j["model"]["merges"][0] = "th"; });
  refused("found 't h e'", [](Json& j) { j["model"]["merges"][0] = "t h e"; });
  refused("found ' h'", [](Json& j) { j["model"]["merges"][0] = " h"; });
  refused("two tokens in merge 1, found [\"t\"]",
          [](Json& j) { j["model"]["merges"][0] = Json::array({"t"}); });
  refused("in merge 1, 'q' + 'z', found 'qz'", [](Json& j) { j["model"]["merges"][0] = "q z"; });
  refused("a list of added_tokens, found {}", [](Json& j) { j["added_tokens"] = Json::object(); });
  refused("text in added_tokens", [](Json& j) { j["added_tokens"][0].erase("content"); });
  refused("found null for '<|endoftext|>'", [](Json& j) { j["added_tokens"][0].erase("id"); });
  refused("for the added token '<|endoftext|>'", [](Json& j) { j["added_tokens"][0]["id"] = 9; });
}

TEST(BpeJson, only_gpt2s_pattern_describes_a_bpe) {
  EXPECT_FALSE(describes_bpe(Json::array()));
  EXPECT_FALSE(describes_bpe(Json::object()));
  EXPECT_FALSE(describes_bpe({{"pre_tokenizer", nullptr}}));
  EXPECT_FALSE(describes_bpe({{"pre_tokenizer", {{"type", "Metaspace"}}}}));
  EXPECT_FALSE(describes_bpe({{"pre_tokenizer", {{"type", "ByteLevel"}, {"use_regex", false}}}}));
  EXPECT_TRUE(describes_bpe({{"pre_tokenizer", {{"type", "ByteLevel"}}}}));
}

}  // namespace
}  // namespace prenorm
