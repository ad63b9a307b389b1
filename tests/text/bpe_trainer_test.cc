#include "prenorm/text/bpe_trainer.h"

#include <gtest/gtest.h>

#include <chrono>

#include "prenorm/base/error.h"
#include "prenorm/text/bpe_tokenizer.h"
#include "prenorm/text/byte_level.h"

namespace prenorm {
namespace {

BpeModel trained(std::string_view text, Index vocab_size, Index min_frequency = 1) {
  BpeTrainer trainer({.vocab_size = vocab_size, .min_frequency = min_frequency});
  trainer.add(text);
  return trainer.train().model;
}

// What the merges made, as bytes.
std::vector<std::string> made(const BpeModel& model) {
  std::vector<std::string> out;
  for (const BpeMerge& merge : model.merges) {
    std::string bytes;
    append_byte_level_bytes(bytes, model.tokens[static_cast<std::size_t>(merge.result)]);
    out.push_back(bytes);
  }
  return out;
}

TEST(BpeTrainer, the_special_token_comes_first_then_the_bytes_in_the_order_of_their_symbols) {
  const BpeModel model = trained("a", 257);
  ASSERT_EQ(model.tokens.size(), 257u);
  EXPECT_EQ(model.tokens[0], "<|endoftext|>");
  EXPECT_EQ(model.tokens[1], "!");
  EXPECT_EQ(model.tokens[94], "~");
  EXPECT_EQ(model.tokens[189], "\u0100");  // the byte 0
  EXPECT_EQ(model.added_tokens, (std::vector<AddedToken>{{"<|endoftext|>", 0}}));
  EXPECT_NO_THROW(model.validate("model"));
}

TEST(BpeTrainer, the_most_frequent_pair_is_merged_first_and_of_equal_ones_the_lowest) {
  // a + b 5 times, then " " + ab 4 times and ab + c 3, of which " " + ab takes all.
  const BpeModel model = trained("ab ab abc abc abc", 262);
  EXPECT_EQ(made(model), (std::vector<std::string>{"ab", " ab", " abc"}));
  EXPECT_EQ(made(trained("xy ab", 258)), (std::vector<std::string>{"ab"}));
}

TEST(BpeTrainer, equal_symbols_in_a_row_are_merged_from_the_left) {
  const BpeModel model = trained("aaaaa", 300);
  // aa aa a: of aa + a and aa + aa, once each, the first has the lower ids.
  EXPECT_EQ(made(model), (std::vector<std::string>{"aa", "aaa", "aaaaa"}));
  EXPECT_EQ(BpeTokenizer(model).encode("aaaaa").size(), 1u);
}

TEST(BpeTrainer, training_ends_where_pairs_are_rarer_than_asked_for) {
  EXPECT_TRUE(made(trained("ab cd", 300, 2)).empty());
  EXPECT_EQ(made(trained("ab ab", 300, 2)), (std::vector<std::string>{"ab"}));
  EXPECT_EQ(made(trained("", 300)).size(), 0u);
}

TEST(BpeTrainer, nothing_is_merged_across_words_or_texts) {
  for (const std::string& token : made(trained("a1a1a1 b\nb\nb\n", 400))) {
    EXPECT_EQ(token.find_first_of("1\n") != std::string::npos &&
                  token.find_first_of("ab") != std::string::npos,
              false)
        << token;
  }
  BpeTrainer apart({.vocab_size = 300});
  apart.add("a");
  apart.add("b");
  EXPECT_TRUE(apart.train().model.merges.empty());
}

TEST(BpeTrainer, what_was_learnt_encodes_and_decodes_any_bytes) {
  const BpeTokenizer tokenizer(trained("the cat the dog the \xC3\xA9t\xC3\xA9 \xFF\xFE", 280));
  const std::string text = "the d\xC3\xA9\xFF\x00 zebra <|endoftext|>";
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  EXPECT_EQ(tokenizer.encode_with_special_tokens("<|endoftext|>"), std::vector<TokenId>{0});
}

TEST(BpeTrainer, one_long_run_of_a_character_takes_linear_time) {
  const auto begin = std::chrono::steady_clock::now();
  const BpeModel model = trained(std::string(1'000'000, '^'), 270);
  EXPECT_EQ(model.merges.size(), 13u);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST(BpeTrainer, progress_sees_every_token_and_may_end_it) {
  BpeTrainer trainer({.vocab_size = 270});
  trainer.add("abcdefgh abcdefgh");
  std::vector<Index> seen;
  const BpeTraining training = trainer.train([&](Index size) {
    seen.push_back(size);
    return size < 260;
  });
  EXPECT_EQ(seen, (std::vector<Index>{258, 259, 260}));
  EXPECT_TRUE(training.interrupted);
  EXPECT_EQ(training.pieces, 2u);
  EXPECT_EQ(training.different, 2u);
}

TEST(BpeTrainer, sizes_that_make_no_sense_are_refused) {
  EXPECT_THROW(BpeTrainer({.vocab_size = 256}), ConfigError);
  EXPECT_THROW(BpeTrainer({.vocab_size = 300, .min_frequency = -1}), ConfigError);
}

}  // namespace
}  // namespace prenorm
