#include "prenorm/text/bpe_tokenizer.h"

#include <random>
#include <set>
#include <sstream>
#include <thread>

#include "prenorm/text/stream_decoder.h"
#include "tests/text/small_bpe.h"
#include "tests/text/tokenizer_folder.h"

namespace prenorm {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

using BpeTokenizerTest = TokenizerFolder;

TEST_F(BpeTokenizerTest, words_become_tokens_within_gpt2s_pieces) {
  const BpeTokenizer tokenizer(small_bpe());
  EXPECT_THAT(tokenizer.encode("the the thethe"), ElementsAre(257, 258, 258, 257));
  EXPECT_THAT(tokenizer.encode("aaaaaa a"), ElementsAre(260, 259, 261));
  EXPECT_THAT(tokenizer.encode("t h"), ElementsAre('t', ' ', 'h'));
  EXPECT_THAT(tokenizer.encode("a  a"), ElementsAre('a', ' ', 261));
  EXPECT_THAT(tokenizer.encode("\xC3\xA9"), ElementsAre(263));
  EXPECT_THAT(tokenizer.encode(""), ElementsAre());
  EXPECT_EQ(tokenizer.vocab_size(), 265);
  EXPECT_EQ(tokenizer.kind(), "bpe");
  EXPECT_FALSE(tokenizer.needs_utf8());
}

TEST_F(BpeTokenizerTest, special_tokens_are_text_unless_they_are_asked_for) {
  const BpeTokenizer tokenizer(small_bpe());
  const std::string text = "a<|endoftext|>the";
  EXPECT_EQ(tokenizer.encode(text).size(), 1 + 13 + 1u);
  EXPECT_THAT(tokenizer.encode_with_special_tokens(text), ElementsAre('a', 264, 257));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode_with_special_tokens(text)), text);
  EXPECT_EQ(tokenizer.decode(264), "<|endoftext|>");
}

// Its text is no part of the words around it, and it may hold what the alphabet has not.
TEST_F(BpeTokenizerTest, added_tokens_that_are_not_special_are_always_found) {
  BpeModel model = small_bpe();
  model.tokens.resize(266);
  model.added_tokens.push_back({"\xE6\x97\xA5 ", 265, false});
  const BpeTokenizer tokenizer(model);
  EXPECT_THAT(tokenizer.encode("the\xE6\x97\xA5  the"), ElementsAre(257, 265, 258));
  EXPECT_EQ(tokenizer.decode(265), "\xE6\x97\xA5 ");
  EXPECT_EQ(tokenizer.token_bytes(256), "th");
  EXPECT_EQ(tokenizer.token_bytes(265).size(), 4u);
}

TEST_F(BpeTokenizerTest, any_bytes_come_back_as_they_were) {
  const BpeTokenizer tokenizer(small_bpe());
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(kText)), kText);
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::string bytes;
    for (unsigned n = random() % 300; n > 0; --n) {
      // Half of them from a few, so that there are words, runs and repeats.
      bytes += static_cast<char>(random() % 2 == 0 ? "at he\xC3\xA9\n"[random() % 8] : random());
    }
    ASSERT_EQ(tokenizer.decode(tokenizer.encode(bytes)), bytes);
  }
}

// A word that comes again is copied from where it was; a table of the smallest size must not
// matter.
TEST_F(BpeTokenizerTest, a_word_encodes_the_same_wherever_it_stands) {
  const BpeTokenizer tokenizer(small_bpe());
  std::mt19937 random(2);
  std::string text;
  std::vector<TokenId> expected;
  for (int word = 0; word < 3000; ++word) {
    std::string piece = " ";
    for (unsigned n = 1 + random() % 6; n > 0; --n) piece += "athe"[random() % 4];
    if (word % 500 == 0) piece += std::string(100, 'a');
    const std::vector<TokenId> ids = tokenizer.encode(piece);
    expected.insert(expected.end(), ids.begin(), ids.end());
    text += piece;
  }
  EXPECT_EQ(tokenizer.encode(text), expected);
}

TEST_F(BpeTokenizerTest, a_byte_without_a_token_is_named) {
  BpeModel model;
  model.tokens = {"a", "b", "ab"};
  model.merges = {{0, 1, 2}};
  const BpeTokenizer tokenizer(model);
  EXPECT_THAT(tokenizer.encode("abba"), ElementsAre(2, 1, 0));
  EXPECT_THAT([&] { tokenizer.encode("ab\nab"); },
              ThrowsMessage<EncodeError>(
                  "text: expected bytes that the vocabulary has a token for, found '\\x0A' at byte "
                  "2"));
}

TEST_F(BpeTokenizerTest, an_id_outside_the_vocabulary_is_named) {
  const BpeTokenizer tokenizer(small_bpe());
  EXPECT_THAT(
      [&] {
        tokenizer.decode(std::vector<TokenId>{1, 265});
      },
      ThrowsMessage<DataError>("token id: expected 0 to 264, found 265"));
  EXPECT_THROW(tokenizer.decode(TokenId{-1}), DataError);
}

TEST_F(BpeTokenizerTest, a_model_that_is_not_sound_is_refused) {
  BpeModel model = small_bpe();
  model.merges[0].result = 1000;
  EXPECT_THAT([&] { BpeTokenizer tokenizer(model); },
              ThrowsMessage<FormatError>(HasSubstr("BPE model: expected ids 0 to 264 in merges")));
}

TEST_F(BpeTokenizerTest, what_it_saves_loads_as_the_same_tokenizer) {
  const BpeTokenizer tokenizer(small_bpe());
  tokenizer.save(path_);
  const auto loaded = load_tokenizer(path_);
  EXPECT_EQ(loaded->kind(), "bpe");
  EXPECT_EQ(loaded->encode(kText), tokenizer.encode(kText));
  EXPECT_EQ(loaded->encode_with_special_tokens("a<|endoftext|>"),
            tokenizer.encode_with_special_tokens("a<|endoftext|>"));
  const std::string first = read_file(path_ / "tokenizer.json");
  loaded->save(path_);
  EXPECT_EQ(read_file(path_ / "tokenizer.json"), first);
}

TEST_F(BpeTokenizerTest, several_threads_may_encode_at_once) {
  const BpeTokenizer tokenizer(small_bpe());
  std::string text;
  for (int i = 0; i < 2000; ++i)
    text += " the tha" + std::string(static_cast<std::size_t>(i % 7), 'a');
  const std::vector<TokenId> expected = tokenizer.encode(text);
  std::vector<std::vector<TokenId>> found(3);
  std::vector<std::thread> threads;
  for (auto& ids : found) threads.emplace_back([&] { ids = tokenizer.encode(text); });
  for (auto& thread : threads) thread.join();
  for (const auto& ids : found) EXPECT_EQ(ids, expected);
}

// GPT-2's own vocabulary, where it is beside the project.
class Gpt2Vocabulary : public ::testing::Test {
 protected:
  static const fs::path& shared() {
    static const fs::path path = fs::path(PRENORM_SOURCE_DIR) / ".." / "shared";
    return path;
  }
  void SetUp() override {
    if (!fs::exists(shared() / "data/gpt2-bpe/vocab.json")) {
      GTEST_SKIP() << "no ../shared/data/gpt2-bpe";
    }
    tokenizer_ = load_bpe_tokenizer(shared() / "data/gpt2-bpe");
  }
  std::unique_ptr<BpeTokenizer> tokenizer_;
};

TEST_F(Gpt2Vocabulary, the_public_cases_encode_as_expected) {
  std::istringstream lines(read_file(shared() / "cases/cases.jsonl"));
  int checked = 0;
  for (std::string line; std::getline(lines, line);) {
    const Json json = parse_json(line, "cases.jsonl");
    if (json["input"]["op"] != "gpt2_encode_decode") continue;
    for (const Json& item : json["expected"]["encode"]) {
      const auto text = item["text"].get<std::string>();
      const std::vector<TokenId> ids = tokenizer_->encode(text);
      EXPECT_EQ(ids, item["ids"].get<std::vector<TokenId>>()) << json["id"] << text;
      EXPECT_EQ(tokenizer_->decode(ids), text);
      ++checked;
    }
  }
  EXPECT_GT(checked, 20);
}

TEST_F(Gpt2Vocabulary, the_plays_have_as_many_tokens_as_nanogpt_counts) {
  const std::string text = read_file(shared() / "data/tinyshakespeare.txt");
  const std::size_t split = text.size() * 9 / 10;
  EXPECT_EQ(tokenizer_->encode(std::string_view(text).substr(0, split)).size(), 301'966u);
  EXPECT_EQ(tokenizer_->encode(std::string_view(text).substr(split)).size(), 36'059u);
}

TEST_F(Gpt2Vocabulary, the_end_of_text_is_one_token_where_it_is_asked_for) {
  EXPECT_EQ(tokenizer_->vocab_size(), 50257);
  EXPECT_THAT(tokenizer_->encode_with_special_tokens("a<|endoftext|>b"),
              ElementsAre(64, 50256, 65));
  EXPECT_THAT(tokenizer_->encode("<|endoftext|>"), ElementsAre(27, 91, 437, 1659, 5239, 91, 29));
}

TEST_F(Gpt2Vocabulary, all_tokens_stand_for_different_bytes) {
  std::set<std::string> seen;
  for (TokenId id = 0; id < 50257; ++id) seen.insert(tokenizer_->decode(id));
  EXPECT_EQ(seen.size(), 50257u);
  EXPECT_EQ(tokenizer_->encode(std::string_view("\0", 1)), std::vector<TokenId>{188});
  EXPECT_EQ(tokenizer_->encode("\xFF"), std::vector<TokenId>{187});
}

TEST_F(Gpt2Vocabulary, a_stream_never_shows_half_a_character) {
  StreamDecoder decoder;
  std::vector<std::string> shown;
  for (const TokenId id : {1909, 30, 30325, 232})
    shown.push_back(decoder.feed(tokenizer_->decode(id)));
  EXPECT_THAT(shown, ElementsAre(" today", "?", " ", "\xF0\x9F\x98\x8A"));
  EXPECT_EQ(decoder.finish(), "");
}

// Minutes with quadratic merging; a stack overflow with a recursive regular expression.
TEST_F(Gpt2Vocabulary, long_runs_of_one_character_encode_at_once) {
  EXPECT_EQ(tokenizer_->encode(std::string(100'000, 'a')), std::vector<TokenId>(25'000, 24794));
  EXPECT_EQ(tokenizer_->encode(std::string(1'000'000, '^')), std::vector<TokenId>(250'000, 39397));
  EXPECT_EQ(tokenizer_->encode(std::string(1'000'000, ' ')).size(), 1'000'000u);
}

}  // namespace
}  // namespace prenorm
