#include "prenorm/model/config_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "prenorm/base/error.h"
#include "prenorm/base/file.h"
#include "prenorm/base/json.h"
#include "tests/config_of.h"

namespace prenorm {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

GptConfig small() { return config_of(4, 4, 128, 64, 65); }

GptConfig again(const GptConfig& c) { return parse_config(config_text(c), "config.json"); }

void expect_same(const GptConfig& a, const GptConfig& b) {
  EXPECT_EQ(a.vocab_size, b.vocab_size);
  EXPECT_EQ(a.block_size, b.block_size);
  EXPECT_EQ(a.n_layer, b.n_layer);
  EXPECT_EQ(a.n_head, b.n_head);
  EXPECT_EQ(a.n_embd, b.n_embd);
  EXPECT_EQ(a.feed_forward_width(), b.feed_forward_width());
  EXPECT_EQ(a.norm, b.norm);
  EXPECT_EQ(a.activation, b.activation);
  EXPECT_EQ(a.layer_norm_epsilon, b.layer_norm_epsilon);
  EXPECT_EQ(a.scale_attn_weights, b.scale_attn_weights);
  EXPECT_EQ(a.scale_attn_by_inverse_layer_idx, b.scale_attn_by_inverse_layer_idx);
  EXPECT_EQ(a.bias, b.bias);
  EXPECT_EQ(a.tie_word_embeddings, b.tie_word_embeddings);
  EXPECT_EQ(a.embd_pdrop, b.embd_pdrop);
  EXPECT_EQ(a.attn_pdrop, b.attn_pdrop);
  EXPECT_EQ(a.resid_pdrop, b.resid_pdrop);
  EXPECT_EQ(a.initializer_range, b.initializer_range);
  EXPECT_EQ(a.bos_token_id, b.bos_token_id);
  EXPECT_EQ(a.eos_token_id, b.eos_token_id);
}

TEST(ConfigJson, every_field_round_trips) {
  expect_same(again(small()), small());
  GptConfig c = small();
  c.n_inner = 200;
  c.norm = NormPlacement::kPost;
  c.activation = Activation::kRelu;
  c.layer_norm_epsilon = 1e-12;
  c.bias = false;
  c.tie_word_embeddings = false;
  c.embd_pdrop = 0.1;
  c.attn_pdrop = 0.2;
  c.resid_pdrop = 0.3;
  c.initializer_range = 0.015;
  c.bos_token_id = 3;
  c.eos_token_id = 0;
  expect_same(again(c), c);
  c.scale_attn_weights = false;
  expect_same(again(c), c);
  c.scale_attn_by_inverse_layer_idx = true;
  c.activation = Activation::kGelu;
  expect_same(again(c), c);
}

TEST(ConfigJson, is_written_as_gpt2_in_the_keys_of_transformers) {
  const Json json = parse_json(config_text(small()), "config.json");
  EXPECT_EQ(json["architectures"], Json::array({"GPT2LMHeadModel"}));
  EXPECT_EQ(json["model_type"], "gpt2");
  EXPECT_EQ(json["n_positions"], 64);
  EXPECT_EQ(json["n_ctx"], 64);
  EXPECT_TRUE(json["n_inner"].is_null());
  EXPECT_EQ(json["activation_function"], "gelu_new");
  EXPECT_EQ(json["dtype"], "float32");
  EXPECT_TRUE(json["eos_token_id"].is_null());
  EXPECT_FALSE(json.contains("norm"));
  EXPECT_FALSE(json.contains("prenorm_bias"));
}

TEST(ConfigJson, what_gpt2_cannot_say_is_said_in_our_own_keys) {
  GptConfig c = small();
  c.bias = false;
  Json json = parse_json(config_text(c), "config.json");
  EXPECT_EQ(json["model_type"], "gpt2");
  EXPECT_EQ(json["prenorm_bias"], false);
  c.norm = NormPlacement::kPost;
  json = parse_json(config_text(c), "config.json");
  EXPECT_EQ(json["model_type"], "prenorm");
  EXPECT_EQ(json["norm"], "post");
  EXPECT_EQ(json["activation_function"], "prenorm_gelu_new");
  EXPECT_THAT(json["architectures"].dump(), ::testing::Not(HasSubstr("GPT2")));
}

TEST(ConfigJson, missing_keys_take_the_defaults_of_gpt2) {
  const GptConfig c = parse_config("{}", "config.json");
  EXPECT_EQ(c.vocab_size, 50257);
  EXPECT_EQ(c.block_size, 1024);
  EXPECT_EQ(c.n_layer, 12);
  EXPECT_EQ(c.n_embd, 768);
  EXPECT_EQ(c.feed_forward_width(), 3072);
  EXPECT_EQ(c.activation, Activation::kGeluTanh);
  EXPECT_TRUE(c.tie_word_embeddings);
  EXPECT_EQ(c.attn_pdrop, 0.1);
  EXPECT_EQ(c.eos_token_id, 50256);
  // A small vocabulary has no such token.
  EXPECT_EQ(parse_config("{\"vocab_size\": 65}", "x").eos_token_id, std::nullopt);
}

TEST(ConfigJson, unknown_keys_are_ignored) {
  EXPECT_EQ(
      parse_config("{\"n_layer\": 3, \"summary_type\": \"cls_index\", \"x\": [1]}", "x").n_layer,
      3);
}

TEST(ConfigJson, activations_have_several_names_in_transformers) {
  const auto read = [](const std::string& name) {
    return parse_config("{\"activation_function\": \"" + name + "\"}", "x").activation;
  };
  EXPECT_EQ(read("relu"), Activation::kRelu);
  EXPECT_EQ(read("gelu"), Activation::kGelu);
  EXPECT_EQ(read("gelu_new"), Activation::kGeluTanh);
  EXPECT_EQ(read("gelu_pytorch_tanh"), Activation::kGeluTanh);
  EXPECT_THAT([&] { read("silu"); },
              ThrowsMessage<FormatError>(
                  "x: activation_function: expected relu, gelu or gelu_new, found \"silu\""));
}

struct Refused {
  const char* json;
  const char* says;
};

TEST(ConfigJson, what_changes_the_arithmetic_or_makes_no_sense_is_refused_by_name) {
  for (const Refused& r : std::vector<Refused>{
           {"{\"model_type\": \"llama\"}", "model_type: expected gpt2 or prenorm, found \"llama\""},
           {"{\"scale_attn_weights\": 0}", "scale_attn_weights: expected true or false, found 0"},
           {"{\"add_cross_attention\": true}", "add_cross_attention: expected false, found true"},
           {"{\"quantization_config\": {\"bits\": 4}}", "quantization_config: expected none"},
           {"{\"pruned_heads\": {\"0\": [1]}}", "pruned_heads: expected none"},
           {"{\"norm\": \"post\"}", "norm: expected pre, which is what gpt2 is"},
           {"{\"model_type\": \"prenorm\", \"norm\": \"sandwich\"}", "norm: expected pre or post"},
           {"{\"n_layer\": \"12\"}", "n_layer: expected a whole number, found \"12\""},
           {"{\"n_layer\": 2.5}", "n_layer: expected a whole number, found 2.5"},
           {"{\"n_layer\": null}", "n_layer: expected a whole number, found null"},
           {"{\"n_layer\": 18446744073709551615}", "n_layer: expected a whole number"},
           {"{\"n_layer\": 0}", "n_layer: expected"},
           {"{\"n_embd\": -768}", "n_embd: expected"},
           {"{\"n_head\": 5}", "n_head: expected"},
           {"{\"n_inner\": 0}", "n_inner: expected null or 1 or more, found 0"},
           {"{\"layer_norm_epsilon\": \"1e-5\"}", "layer_norm_epsilon: expected a number"},
           {"{\"attn_pdrop\": 1.5}", "attn_pdrop: expected"},
           {"{\"tie_word_embeddings\": 1}", "tie_word_embeddings: expected true or false, found 1"},
           {"{\"eos_token_id\": \"</s>\"}", "eos_token_id: expected a whole number"},
           {"{\"eos_token_id\": 5000000000}", "eos_token_id: expected a token id"},
           {"{\"activation_function\": \"prenorm_relu\"}", "found \"prenorm_relu\""},
           {"[]", "expected an object, found []"},
           {"{\"n_layer\": 1, \"n_layer\": 2}", "'n_layer' twice"},
           {"", "expected JSON"},
       }) {
    EXPECT_THAT([&] { parse_config(r.json, "DIR/config.json"); },
                ThrowsMessage<FormatError>(::testing::AllOf(
                    ::testing::StartsWith("DIR/config.json: "), HasSubstr(r.says))))
        << r.json;
  }
}

TEST(ConfigJson, end_tokens_come_from_the_generation_config_first) {
  std::string name = (fs::temp_directory_path() / "prenorm-config-XXXXXX").string();
  ASSERT_NE(::mkdtemp(name.data()), nullptr);
  const fs::path folder = name;
  GptConfig c = small();
  save_config(c, folder);
  EXPECT_THAT(load_eos_token_ids(folder), IsEmpty());
  c.eos_token_id = 7;
  save_config(c, folder);
  EXPECT_THAT(load_eos_token_ids(folder), ElementsAre(7));
  expect_same(load_config(folder), c);
  write_file_durably(folder / "generation_config.json", "{\"eos_token_id\": [3, 4]}");
  EXPECT_THAT(load_eos_token_ids(folder), ElementsAre(3, 4));
  fs::remove(folder / "generation_config.json");
  EXPECT_THAT(load_eos_token_ids(folder), ElementsAre(7));
  fs::remove_all(folder);
}

}  // namespace
}  // namespace prenorm
