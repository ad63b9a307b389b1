#include "prenorm/cli/tokenizer_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "prenorm/base/error.h"
#include "prenorm/base/file.h"
#include "prenorm/text/byte_tokenizer.h"
#include "tests/temporary_folder.h"

namespace prenorm::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(TokenizerChoice, a_word_or_a_folder_names_a_tokenizer) {
  const TemporaryFolder folder("choice");
  EXPECT_EQ(open_tokenizer("byte")->kind(), "byte");
  EXPECT_EQ(open_tokenizer("char"), nullptr);
  ByteTokenizer().save(folder.path());
  EXPECT_EQ(open_tokenizer(folder.path().string())->kind(), "byte");
  std::filesystem::remove(folder.path() / "tokenizer.json");
  write_file_durably(folder.path() / "vocab.json", R"({"a": 0, "b": 1, "ab": 2})");
  write_file_durably(folder.path() / "merges.txt", "a b\n");
  EXPECT_EQ(open_tokenizer("gpt2:" + folder.path().string())->encode("ab").size(), 1u);
}

TEST(TokenizerChoice, other_names_are_refused_with_what_is_known) {
  EXPECT_THAT([] { open_tokenizer("bytes"); },
              ThrowsMessage<ConfigError>("--tokenizer: expected byte, char, gpt2:DIR or a folder "
                                         "with a tokenizer, found 'bytes'"));
  EXPECT_THAT([] { open_tokenizer(""); }, ThrowsMessage<ConfigError>(HasSubstr("found none")));
  EXPECT_THAT([] { open_tokenizer("gpt2:nowhere"); },
              ThrowsMessage<IoError>(HasSubstr("nowhere: expected tokenizer.json")));
}

// Its tokenizer.json is one of bytes: GPT-2's files beside it would be something else.
TEST(TokenizerChoice, gpt2_takes_only_a_byte_level_bpe) {
  const TemporaryFolder folder("choice");
  ByteTokenizer().save(folder.path());
  EXPECT_THAT(
      [&] { open_tokenizer("gpt2:" + folder.path().string()); },
      ThrowsMessage<FormatError>(HasSubstr("use_regex true in pre_tokenizer, found false")));
}

}  // namespace
}  // namespace prenorm::cli
