#include "prenorm/model/bert_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "prenorm/base/error.h"

namespace prenorm {
namespace {

using testing::HasSubstr;

TEST(BertConfig, keys_are_read_and_missing_ones_take_huggingfaces_defaults) {
  const BertConfig c = parse_bert_config(
      R"({"model_type": "bert", "hidden_size": 32, "num_attention_heads": 4, "hidden_act": "relu",
          "layer_norm_eps": 1e-5, "pad_token_id": 3, "position_embedding_type": "absolute",
          "is_decoder": false, "use_cache": true, "classifier_dropout": null})",
      "config.json");
  EXPECT_EQ(c.hidden_size, 32);
  EXPECT_EQ(c.num_attention_heads, 4);
  EXPECT_EQ(c.hidden_act, Activation::kRelu);
  EXPECT_EQ(c.layer_norm_eps, 1e-5);
  EXPECT_EQ(c.pad_token_id, 3);
  EXPECT_EQ(c.vocab_size, 30522);
  EXPECT_EQ(c.num_hidden_layers, 12);
  const BertConfig plain = parse_bert_config(R"({"model_type": "bert"})", "config.json");
  EXPECT_EQ(plain.hidden_act, Activation::kGelu);
  EXPECT_EQ(plain.layer_norm_eps, 1e-12);
}

std::string refusal(const std::string& member) {
  try {
    parse_bert_config(R"({"model_type": "bert", )" + member + "}", "config.json");
  } catch (const FormatError& error) {
    return error.what();
  }
  return "";
}

TEST(BertConfig, what_is_not_supported_is_refused_by_its_key) {
  EXPECT_EQ(refusal(R"("position_embedding_type": "relative_key")"),
            "config.json: position_embedding_type: expected \"absolute\", found \"relative_key\"");
  EXPECT_THAT(refusal(R"("is_decoder": true)"), HasSubstr("is_decoder: expected false"));
  EXPECT_THAT(refusal(R"("add_cross_attention": true)"), HasSubstr("add_cross_attention"));
  EXPECT_THAT(refusal(R"("pruned_heads": {"0": [1]})"), HasSubstr("pruned_heads"));
  EXPECT_EQ(refusal(R"("pruned_heads": {})"), "");
  EXPECT_THAT(refusal(R"("hidden_act": "swish")"), HasSubstr("hidden_act: expected gelu"));
  EXPECT_THAT(refusal(R"("hidden_size": "many")"), HasSubstr("hidden_size: expected a whole"));
  EXPECT_THAT(refusal(R"("num_attention_heads": 7)"), HasSubstr("divides hidden_size = 768"));
  EXPECT_THAT(refusal(R"("num_hidden_layers": 0)"), HasSubstr("num_hidden_layers"));
  EXPECT_THAT(refusal(R"("layer_norm_eps": 0)"), HasSubstr("layer_norm_eps"));
  EXPECT_THAT(refusal(R"("pad_token_id": 30522)"), HasSubstr("pad_token_id"));
  EXPECT_THAT(refusal(R"("vocab_size": 99999999999)"), HasSubstr("vocab_size"));
}

TEST(BertConfig, another_model_type_is_refused) {
  for (const char* text : {R"({"model_type": "gpt2"})", "{}", "[]", "7"}) {
    EXPECT_THROW(parse_bert_config(text, "config.json"), FormatError) << text;
  }
}

}  // namespace
}  // namespace prenorm
