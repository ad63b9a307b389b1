#include "prenorm/cli/common.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "prenorm/base/error.h"
#include "prenorm/model/checkpoint.h"
#include "prenorm/text/byte_tokenizer.h"
#include "tests/temporary_folder.h"

namespace prenorm::cli {
namespace {

class Common : public testing::Test {
 protected:
  static GptConfig config(Index vocabulary) {
    GptConfig config;
    config.vocab_size = vocabulary;
    config.block_size = 8;
    config.n_layer = 1;
    config.n_head = 1;
    config.n_embd = 4;
    return config;
  }
  std::string load_error() const {
    try {
      load_model(Runtime({.threads = 1}), folder_);
    } catch (const std::exception& error) {
      return error.what();
    }
    return "no error";
  }

  const TemporaryFolder temporary_{"common"};
  const std::string folder_ = temporary_.path().string();
};

TEST_F(Common, a_folder_loads_with_its_tokenizer) {
  save_pretrained(Gpt(config(256)), folder_);
  ByteTokenizer().save(folder_);
  const LoadedModel loaded = load_model(Runtime({.threads = 1}), folder_);
  EXPECT_EQ(loaded.model->config().n_embd, 4);
  EXPECT_EQ(loaded.tokenizer->kind(), "byte");
}

TEST_F(Common, a_folder_without_a_tokenizer_loads_where_that_is_optional) {
  save_pretrained(Gpt(config(100)), folder_);
  EXPECT_FALSE(has_tokenizer(folder_));
  EXPECT_EQ(load_model(Runtime({.threads = 1}), folder_, TokenizerUse::kOptional).tokenizer,
            nullptr);
  EXPECT_THROW(load_model(Runtime({.threads = 1}), folder_), IoError);
  ByteTokenizer().save(folder_);  // one that is there must fit
  EXPECT_TRUE(has_tokenizer(folder_));
  EXPECT_THROW(load_model(Runtime({.threads = 1}), folder_, TokenizerUse::kOptional), FormatError);
}

TEST_F(Common, no_folder_is_a_usage_error_and_a_missing_one_bad_input) {
  EXPECT_THROW(load_model(Runtime({.threads = 1}), ""), ConfigError);
  EXPECT_THROW(load_model(Runtime({.threads = 1}), folder_ + "/nowhere"), IoError);
}

TEST_F(Common, a_tokenizer_with_more_tokens_than_the_model_is_bad_input) {
  save_pretrained(Gpt(config(100)), folder_);
  ByteTokenizer().save(folder_);
  EXPECT_THROW(load_model(Runtime({.threads = 1}), folder_), FormatError);
  EXPECT_THAT(load_error(), testing::HasSubstr("at most the model's 100 tokens, found 256"));
}

TEST_F(Common, weights_that_are_not_finite_are_a_numerical_error_that_names_the_tensor) {
  Gpt model(config(256));
  model.parameters().find("transformer.wpe.weight")->value[3] =
      -std::numeric_limits<float>::infinity();
  save_pretrained(model, folder_);
  ByteTokenizer().save(folder_);
  EXPECT_THROW(load_model(Runtime({.threads = 1}), folder_), NumericalError);
  EXPECT_THAT(load_error(), testing::HasSubstr("'transformer.wpe.weight'"));
}

}  // namespace
}  // namespace prenorm::cli
