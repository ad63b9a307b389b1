#include "prenorm/cli/tokenize_train.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "prenorm/text/tokenizer.h"
#include "tests/cli/run_program.h"

namespace prenorm::cli {
namespace {

class TokenizeTrain : public testing::Test {
 protected:
  Ran run(std::vector<std::string> arguments, const std::string& input = "") {
    arguments.insert(arguments.begin(), {"tokenize", "--train"});
    return run_program(scratch_, arguments, input);
  }
  Scratch scratch_;
};

TEST_F(TokenizeTrain, what_is_learnt_is_a_folder_that_tokenize_reads) {
  spill(scratch_ / "text.txt", small_text());
  const Ran ran = run({"--vocab-size", "280", "text.txt", "--out-dir", "bpe", "--json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const auto told = nlohmann::json::parse(ran.out);
  EXPECT_EQ(told["vocab_size"], 280);
  EXPECT_EQ(told["merges"], 23);
  EXPECT_EQ(told["bytes"], small_text().size());
  const auto tokenizer = load_tokenizer(scratch_ / "bpe");
  EXPECT_EQ(tokenizer->vocab_size(), 280);
  EXPECT_LT(tokenizer->encode(small_text()).size(), small_text().size() * 3 / 4);
  const std::string first = slurp(scratch_ / "bpe/tokenizer.json");
  EXPECT_EQ(run({"--vocab-size", "280", "--out-dir", "again"}, small_text()).code, 0);
  EXPECT_EQ(slurp(scratch_ / "again/tokenizer.json"), first);
}

TEST_F(TokenizeTrain, a_text_with_too_little_to_merge_is_told) {
  const Ran ran = run({"--vocab-size", "1000", "--out-dir", "bpe"}, "ab");
  EXPECT_EQ(ran.code, 0);
  EXPECT_NE(ran.err.find("no more to merge after 258 tokens"), std::string::npos) << ran.err;
}

TEST_F(TokenizeTrain, the_end_of_text_is_text_unless_it_is_special) {
  const std::string text = "<|endoftext|>ab<|endoftext|>ab";
  ASSERT_EQ(run({"--vocab-size", "400", "--out-dir", "plain"}, text).code, 0);
  ASSERT_EQ(run({"--vocab-size", "400", "--special", "--out-dir", "special"}, text).code, 0);
  EXPECT_EQ(load_tokenizer(scratch_ / "special")->vocab_size(), 258);
  EXPECT_GT(load_tokenizer(scratch_ / "plain")->vocab_size(), 258);
}

TEST_F(TokenizeTrain, a_tokenizer_that_is_there_is_replaced_with_force_only) {
  ASSERT_EQ(run({"--out-dir", "bpe"}, "abc").code, 0);
  expect_error(run({"--out-dir", "bpe"}, "abc"), 2, "--out-dir: expected a folder without");
  EXPECT_EQ(run({"--out-dir", "bpe", "--force"}, "abc").code, 0);
}

TEST_F(TokenizeTrain, flags_that_make_no_sense_are_refused) {
  expect_error(run({}, "abc"), 2, "--out-dir: expected a folder");
  expect_error(run({"--out-dir", "bpe", "--decode"}, "abc"), 2, "--train: expected without");
  expect_error(run({"--out-dir", "bpe", "--vocab-size", "256"}, "abc"), 2, "--vocab-size");
  expect_error(run({"--out-dir", "bpe"}, ""), 3, "--data: expected a text");
  expect_error(run_program(scratch_, {"tokenize", "--tokenizer", "byte", "--out-dir", "x"}, "a"), 2,
               "--out-dir: expected --train");
}

}  // namespace
}  // namespace prenorm::cli
