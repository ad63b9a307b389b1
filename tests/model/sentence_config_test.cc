#include "prenorm/model/sentence_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "prenorm/base/error.h"
#include "prenorm/base/file.h"
#include "tests/temporary_folder.h"

namespace prenorm {
namespace {

using testing::HasSubstr;

std::string modules(const std::string& last) {
  const std::string t = R"("type": "sentence_transformers.models.)";
  return R"([{"path": "", )" + t + R"(Transformer"}, {"path": "1_Pooling", )" + t +
         R"(Pooling"}, {"path": "2", )" + t + last + "\"}]";
}

class SentenceFolder : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((folder_.path() / name).parent_path());
    write_file_durably(folder_.path() / name, text);
  }
  SentenceConfig load() const { return load_sentence_config(folder_.path()); }
  std::string refusal() const {
    try {
      load();
    } catch (const FormatError& error) {
      return error.what();
    }
    return "";
  }
  TemporaryFolder folder_{"sentence"};
};

TEST_F(SentenceFolder, an_encoder_alone_is_pooled_by_its_mean_and_not_normalised) {
  const SentenceConfig c = load();
  EXPECT_EQ(c.pooling, Pooling::kMean);
  EXPECT_FALSE(c.normalize);
  EXPECT_EQ(c.max_seq_length, 0);
  EXPECT_EQ(c.transformer, folder_.path());
}

TEST_F(SentenceFolder, modules_say_pooling_normalisation_and_length) {
  write("modules.json", modules("Normalize"));
  write("1_Pooling/config.json",
        R"({"pooling_mode_max_tokens": true, "pooling_mode_mean_tokens": false})");
  write("sentence_bert_config.json", R"({"max_seq_length": 77, "do_lower_case": false})");
  const SentenceConfig c = load();
  EXPECT_EQ(c.pooling, Pooling::kMax);
  EXPECT_TRUE(c.normalize);
  EXPECT_EQ(c.max_seq_length, 77);
}

TEST_F(SentenceFolder, what_is_not_supported_is_refused_by_name) {
  write("modules.json", modules("Dense"));
  write("1_Pooling/config.json", R"({"pooling_mode_cls_token": true})");
  EXPECT_THAT(refusal(), HasSubstr("found Transformer, Pooling, Dense"));
  write("modules.json", modules("Normalize"));
  EXPECT_EQ(refusal(), "");
  write("1_Pooling/config.json",
        R"({"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": true})");
  EXPECT_THAT(refusal(), HasSubstr("pooling_mode_mean_tokens and pooling_mode_cls_token"));
  write("1_Pooling/config.json", R"({"pooling_mode_lasttoken": true})");
  EXPECT_THAT(refusal(), HasSubstr("pooling_mode_lasttoken"));
  write("1_Pooling/config.json", "{}");
  write("sentence_bert_config.json", R"({"max_seq_length": 2})");
  EXPECT_THAT(refusal(), HasSubstr("max_seq_length"));
  write("sentence_bert_config.json", R"({"do_lower_case": true})");
  EXPECT_THAT(refusal(), HasSubstr("do_lower_case"));
  write("sentence_bert_config.json", "{}");
  write("config_sentence_transformers.json", R"({"default_prompt_name": "query"})");
  EXPECT_THAT(refusal(), HasSubstr("default_prompt_name"));
}

TEST(Pooling, names_come_back) {
  for (const char* name : {"mean", "cls", "max"}) {
    EXPECT_EQ(pooling_name(*pooling_from_name(name)), name);
  }
  EXPECT_FALSE(pooling_from_name("min"));
}

}  // namespace
}  // namespace prenorm
