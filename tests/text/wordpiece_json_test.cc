#include "prenorm/text/wordpiece_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "prenorm/base/error.h"

namespace prenorm {
namespace {

using testing::HasSubstr;

WordPieceModel small() {
  WordPieceModel model;
  add_wordpiece_vocabulary("[PAD]\r\n[UNK]\n[CLS]\n[SEP]\na\n##b", model, "vocab.txt");
  return model;
}

std::string refusal(const Json& json) {
  try {
    wordpiece_model_of(json, "tokenizer.json");
  } catch (const FormatError& error) {
    return error.what();
  }
  return "";
}

TEST(WordPieceJson, a_model_comes_back_from_its_json) {
  WordPieceModel model = small();
  model.normalization.strip_accents = false;
  model.max_input_chars_per_word = 7;
  const Json json = wordpiece_json_of(model);
  EXPECT_TRUE(describes_wordpiece(json));
  const WordPieceModel again = wordpiece_model_of(json, "x");
  EXPECT_EQ(again.tokens, model.tokens);
  EXPECT_EQ(again.normalization, model.normalization);
  EXPECT_EQ(again.max_input_chars_per_word, 7);
  EXPECT_EQ(again.added_tokens, model.added_tokens);
  EXPECT_EQ(again.sep_token, "[SEP]");
}

TEST(WordPieceJson, what_would_encode_otherwise_is_refused_by_name) {
  const Json sound = wordpiece_json_of(small());
  EXPECT_EQ(refusal(sound), "");
  const auto with = [&](const char* key, const Json& value) {
    Json json = sound;
    json[key] = value;
    return json;
  };
  EXPECT_THAT(refusal(with("normalizer", {{"type", "NFC"}})), HasSubstr("BertNormalizer"));
  EXPECT_THAT(refusal(with("pre_tokenizer", nullptr)), HasSubstr("BertPreTokenizer"));
  EXPECT_THAT(refusal(with("post_processor", {{"type", "ByteLevel"}})), HasSubstr("[CLS]"));
  EXPECT_THAT(refusal(with("model", {{"type", "Unigram"}})), HasSubstr("Unigram"));
  Json json = sound;
  json["added_tokens"][0]["lstrip"] = true;
  EXPECT_THAT(refusal(json), HasSubstr("lstrip false"));
  json = sound;
  json["normalizer"]["lowercase"] = "yes";
  EXPECT_THAT(refusal(json), HasSubstr("lowercase true or false"));
  EXPECT_FALSE(describes_wordpiece(with("model", {{"type", "BPE"}})));
  EXPECT_FALSE(describes_wordpiece(Json::array()));
}

}  // namespace
}  // namespace prenorm
