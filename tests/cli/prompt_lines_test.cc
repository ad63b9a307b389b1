#include "prenorm/cli/prompt_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "prenorm/base/error.h"
#include "prenorm/text/byte_tokenizer.h"
#include "prenorm/text/char_tokenizer.h"

namespace prenorm::cli {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

GptConfig vocabulary(Index size) {
  GptConfig config;
  config.vocab_size = size;
  return config;
}

std::string error_of(std::string_view bytes, const Tokenizer* tokenizer) {
  try {
    parse_prompts(bytes, "p.jsonl", vocabulary(256), tokenizer);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(PromptLines, text_and_ids_come_in_the_order_of_the_lines) {
  const ByteTokenizer bytes;
  const auto prompts = parse_prompts("{\"ids\": [5, 0, 255], \"id\": 7}\n\n{\"text\": \"ab\"}\r\n",
                                     "p.jsonl", vocabulary(256), &bytes);
  ASSERT_EQ(prompts.size(), 2u);
  EXPECT_EQ(prompts[0].ids, (std::vector<TokenId>{5, 0, 255}));
  EXPECT_EQ(prompts[1].ids, (std::vector<TokenId>{97, 98}));
  EXPECT_EQ(prompts[1].place, "p.jsonl, line 3");
}

TEST(PromptLines, ids_need_no_tokenizer_and_text_does) {
  EXPECT_EQ(parse_prompts("{\"ids\":[1]}", "p.jsonl", vocabulary(2), nullptr).front().ids,
            (std::vector<TokenId>{1}));
  EXPECT_THAT(error_of("{\"text\": \"a\"}", nullptr),
              StartsWith("p.jsonl, line 1: expected 'ids'"));
}

TEST(PromptLines, a_bad_line_is_named) {
  const ByteTokenizer bytes;
  for (const char* line :
       {"{", "[1]", "\"a\"", "{}", "{\"text\":\"a\",\"ids\":[1]}", "{\"text\":1}",
        "{\"text\":\"\"}", "{\"ids\":[]}", "{\"ids\":[256]}", "{\"ids\":[-1]}", "{\"ids\":[1.5]}",
        "{\"ids\":\"a\"}", "{\"ids\":[18446744073709551616]}", "{\"ids\":[[1]]}",
        "{\"text\":null}"}) {
    EXPECT_THAT(error_of(std::string("{\"ids\":[1]}\n") + line, &bytes),
                StartsWith("p.jsonl, line 2: expected "))
        << line;
  }
  EXPECT_THAT(error_of("", &bytes), HasSubstr("p.jsonl: expected a prompt a line"));
  const CharTokenizer chars = CharTokenizer::from_text("ab");
  EXPECT_THAT(error_of("{\"text\":\"abc\"}", &chars), StartsWith("p.jsonl, line 1: expected"));
}

}  // namespace
}  // namespace prenorm::cli
