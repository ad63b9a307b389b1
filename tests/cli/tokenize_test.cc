#include "prenorm/cli/tokenize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "prenorm/text/bpe_tokenizer.h"
#include "prenorm/text/char_tokenizer.h"
#include "tests/cli/run_program.h"
#include "tests/text/small_bpe.h"

namespace prenorm::cli {
namespace {

using ::testing::HasSubstr;
using Ids = std::vector<int>;

class TokenizeVerb : public testing::Test {
 protected:
  TokenizeVerb() {
    std::filesystem::create_directory(scratch_ / "bpe");
    BpeTokenizer(small_bpe()).save(scratch_ / "bpe");
  }
  Ran run(std::vector<std::string> arguments, const std::string& input = "") {
    arguments.insert(arguments.begin(), "tokenize");
    return run_program(scratch_, arguments, input);
  }
  // The ids of each line.
  std::vector<Ids> ids(std::vector<std::string> arguments, const std::string& input = "") {
    arguments.emplace_back("--json");
    const Ran ran = run(arguments, input);
    EXPECT_EQ(ran.code, 0) << ran.err;
    std::vector<Ids> out;
    std::istringstream lines(ran.out);
    for (std::string line; std::getline(lines, line);) {
      out.push_back(nlohmann::json::parse(line)["ids"]);
    }
    return out;
  }

  Scratch scratch_;
};

TEST_F(TokenizeVerb, a_line_of_ids_comes_for_each_file_in_their_order) {
  spill(scratch_ / "a.txt", "the");
  spill(scratch_ / "b.txt", "");
  spill(scratch_ / "c.txt", "\xFF<|endoftext|>");
  EXPECT_EQ(ids({"--tokenizer", "gpt2:bpe", "c.txt", "a.txt", "b.txt", "--special"}),
            (std::vector<Ids>{{255, 264}, {257}, {}}));
  EXPECT_EQ(ids({"--tokenizer", "bpe", "-", "a.txt"}, "th"), (std::vector<Ids>{{256}, {257}}));
  EXPECT_EQ(ids({"-m", "bpe"}, "the"), (std::vector<Ids>{{257}}));
}

TEST_F(TokenizeVerb, special_tokens_are_text_unless_they_are_asked_for) {
  EXPECT_EQ(ids({"--tokenizer", "gpt2:bpe"}, "<|endoftext|>")[0].size(), 13u);
  EXPECT_EQ(ids({"--tokenizer", "gpt2:bpe", "--special"}, "<|endoftext|>")[0], (Ids{264}));
}

TEST_F(TokenizeVerb, bytes_are_their_values_and_characters_the_texts_or_the_models) {
  EXPECT_EQ(ids({"--tokenizer", "byte"}, "A\n\xFF")[0], (Ids{65, 10, 255}));
  EXPECT_EQ(ids({"--tokenizer", "char"},
                "b\xC3\xA9"
                "ab")[0],
            (Ids{1, 2, 0, 1}));
  spill(scratch_ / "a.txt", "c");
  spill(scratch_ / "b.txt", "ab");
  EXPECT_EQ(ids({"--tokenizer", "char", "a.txt", "b.txt"}), (std::vector<Ids>{{2}, {0, 1}}));
  EXPECT_EQ(ids({"--tokenizer", "char"}, ""), (std::vector<Ids>{{}}));
  std::filesystem::create_directory(scratch_ / "run");
  CharTokenizer::from_text("abcdef").save(scratch_ / "run");
  EXPECT_EQ(ids({"--tokenizer", "char", "-m", "run"}, "fa")[0], (Ids{5, 0}));
}

TEST_F(TokenizeVerb, any_bytes_come_back_from_their_ids) {
  std::string bytes;
  for (int i = 0; i < 1000; ++i) bytes += static_cast<char>(i * i % 251 + i / 500);
  for (const char* name : {"byte", "gpt2:bpe"}) {
    const Ran encoded = run({"--tokenizer", name, "--json"}, bytes);
    EXPECT_EQ(encoded.err, "");
    spill(scratch_ / "ids.jsonl", encoded.out + "\n" + encoded.out);
    const Ran decoded = run({"--tokenizer", name, "--decode", "ids.jsonl"});
    EXPECT_EQ(decoded.code, 0) << decoded.err;
    EXPECT_EQ(decoded.out, bytes + bytes) << name;
  }
  // A line of `generate --json`.
  EXPECT_EQ(run({"-m", "bpe", "--decode"}, R"({"ids": [257, 264], "text": "the"})").out,
            "the<|endoftext|>");
}

TEST_F(TokenizeVerb, without_json_each_token_is_shown_with_its_text) {
  EXPECT_EQ(run({"--tokenizer", "gpt2:bpe"}, "the\xFF the").out,
            "    257  'the'\n    255  '\\xFF'\n    258  ' the'\n");
}

TEST_F(TokenizeVerb, lines_that_cannot_be_decoded_are_named) {
  const std::vector<std::string> decode = {"--tokenizer", "gpt2:bpe", "--decode"};
  expect_error(run(decode, "{\"ids\":[300]}"), 3,
               "standard input, line 1, token id: expected 0 to 264, found 300");
  expect_error(run(decode, "\n[300]"), 3,
               "standard input, line 2: expected an object with a list 'ids', found '[300]'");
  expect_error(run(decode, "{\"ids\":7}"), 3, "standard input, line 1: expected an object with");
  expect_error(run(decode, "{\"ids\":[4294967296]}"), 3,
               "standard input, line 1: expected token ids in 'ids', found 4294967296");
  expect_error(run(decode, "{\"ids\":[18446744073709551615]}"), 3,
               "standard input, line 1: expected token ids in 'ids', found 18446744073709551615");
  expect_error(run(decode, "{\"ids\":[\"a\"]}"), 3,
               "standard input, line 1: expected token ids in 'ids', found");
  expect_error(run(decode, "{\"ids\":[1"), 3, "standard input, line 1: expected JSON");
}

TEST_F(TokenizeVerb, what_is_missing_or_makes_no_sense_is_an_error_of_one_line) {
  expect_error(run({}, "x"), 2, "--tokenizer: expected byte, char, gpt2:DIR or a folder");
  expect_error(run({"--tokenizer", "words"}, "x"), 2, "--tokenizer: expected byte, char");
  expect_error(run({"--tokenizer", "byte", "-m", "bpe"}, "x"), 2,
               "--tokenizer: expected bpe as in 'bpe', found 'byte'");
  expect_error(run({"--tokenizer", "char", "--decode"}, "{}"), 2,
               "-m: expected a folder with the characters, found none");
  expect_error(run({"--tokenizer", "byte", "-", "-"}), 2, "--data: expected '-'");
  expect_error(run({"--tokenizer", "byte", "nowhere.txt"}), 3, "nowhere.txt: expected a readable");
  expect_error(run({"--tokenizer", "char"}, "it\x92s"), 3,
               "standard input: expected UTF-8 text, found '\\x92' at byte 2");
  CharTokenizer::from_text("ab").save(scratch_.path());
  expect_error(run({"-m", "."}, "abc"), 3,
               "standard input: expected a character of the vocabulary");
}

}  // namespace
}  // namespace prenorm::cli
