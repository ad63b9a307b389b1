#include "prenorm/cli/continuation.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "prenorm/text/byte_tokenizer.h"

namespace prenorm::cli {
namespace {

TEST(Continuation, its_text_is_without_the_end_of_text_token_and_the_stop_text) {
  const ByteTokenizer bytes;
  EXPECT_EQ(continuation_text(bytes, {}, {{'a', 'b'}, {}, StopReason::kEos}), "a");
  EXPECT_EQ(continuation_text(bytes, {}, {{'a', 'b'}, {}, StopReason::kLength}), "ab");
  EXPECT_EQ(continuation_text(bytes, {"bc"}, {{'a', 'b', 'c'}, {}, StopReason::kCallback}), "a");
  EXPECT_EQ(continuation_text(bytes, {}, {{'a', 0xC3}, {}, StopReason::kLength}), "a\uFFFD");
}

TEST(Continuation, its_json_reads_back_to_the_same_floats) {
  const Generation made{{3, 1}, {-0.1f, -1.17549435e-38f}, StopReason::kLength};
  const std::string line = continuation_json(nullptr, {}, made, {});
  EXPECT_EQ(line.back(), '\n');
  const auto json = nlohmann::json::parse(line);
  EXPECT_EQ(json["logprobs"].get<std::vector<float>>(), made.logprobs);
  EXPECT_EQ(json["ids"], (std::vector<int>{3, 1}));
  EXPECT_TRUE(json["text"].is_null());
  EXPECT_EQ(json["stop"], "length");
  EXPECT_FALSE(json.contains("prompt_ids"));
}

TEST(Continuation, a_scored_prompt_has_no_log_probability_for_its_first_token) {
  const std::vector<TokenId> ids = {'a', 'b'};
  const std::vector<float> logprobs = {-2.5f};
  const ByteTokenizer bytes;
  const auto json = nlohmann::json::parse(
      continuation_json(&bytes, {}, {{}, {}, StopReason::kLength}, ScoredPrompt{ids, logprobs}));
  EXPECT_EQ(json["prompt_ids"], (std::vector<int>{'a', 'b'}));
  ASSERT_EQ(json["prompt_logprobs"].size(), 2u);
  EXPECT_TRUE(json["prompt_logprobs"][0].is_null());
  EXPECT_EQ(json["prompt_logprobs"][1], -2.5);
  EXPECT_EQ(json["text"], "");
}

}  // namespace
}  // namespace prenorm::cli
