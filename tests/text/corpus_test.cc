#include "prenorm/text/corpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <sstream>

#include "prenorm/base/file.h"
#include "prenorm/text/bpe_tokenizer.h"
#include "prenorm/text/byte_tokenizer.h"
#include "prenorm/text/char_tokenizer.h"
#include "tests/text/small_bpe.h"

namespace prenorm {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

const std::string kMark = "\xEF\xBB\xBF";

class CorpusTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "prenorm-corpus-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string file(const std::string& name, const std::string& bytes) {
    write_file_durably(folder_ / name, bytes);
    return (folder_ / name).string();
  }

  static Text read(const std::vector<std::string>& paths, TextEncoding encoding) {
    return read_text(paths, encoding);
  }

  // A text of one file in memory.
  static Text text_of(std::string bytes) { return {std::move(bytes), {{"data.txt", 0, 0}}, {}}; }

  fs::path folder_;
};

TEST_F(CorpusTest, files_and_standard_input_follow_each_other_in_order) {
  std::istringstream in("from the pipe\n");
  const std::vector<std::string> paths = {file("a", "one\r\n"), "-", file("b", "two")};
  const Text text = read_text(paths, TextEncoding::kUtf8, in);
  EXPECT_EQ(text.bytes, "one\r\nfrom the pipe\ntwo");
  EXPECT_THAT(text.notices, IsEmpty());
  EXPECT_EQ(text.locate(0), std::pair(paths[0], std::size_t{0}));
  EXPECT_EQ(text.locate(5), std::pair(std::string("standard input"), std::size_t{0}));
  EXPECT_EQ(text.locate(21), std::pair(paths[2], std::size_t{2}));
}

TEST_F(CorpusTest, carriage_returns_survive) {
  const Text text = read({file("a", "a\r\nb\n")}, TextEncoding::kUtf8);
  const CharTokenizer tokenizer = CharTokenizer::from_text(text.bytes);
  EXPECT_THAT(tokenizer.vocabulary(), ElementsAre('\n', '\r', 'a', 'b'));
  EXPECT_EQ(tokenizer.decode(encode_text(text, tokenizer)), "a\r\nb\n");
}

TEST_F(CorpusTest, a_byte_order_mark_is_dropped_from_characters_with_a_notice) {
  const std::string marked = file("a", kMark + "ab" + kMark), plain = file("b", "c");
  const Text text = read({plain, marked}, TextEncoding::kUtf8);
  EXPECT_EQ(text.bytes, "cab" + kMark);  // only at the start is it a mark
  EXPECT_THAT(text.notices,
              ElementsAre(marked + ": dropped the UTF-8 byte-order mark at its start"));
  EXPECT_EQ(text.locate(2), std::pair(marked, std::size_t{4}));
}

TEST_F(CorpusTest, bytes_keep_a_byte_order_mark) {
  const Text text = read({file("a", kMark + "ab")}, TextEncoding::kBytes);
  EXPECT_EQ(text.bytes, kMark + "ab");
  EXPECT_THAT(text.notices, IsEmpty());
}

TEST_F(CorpusTest, bytes_that_are_not_utf8_are_kept_as_bytes_and_refused_as_characters) {
  const std::string path = file("a", "it\x92s ");
  const Text text = read({path}, TextEncoding::kBytes);
  EXPECT_THAT(encode_text(text, ByteTokenizer()), ElementsAre(0x69, 0x74, 0x92, 0x73, 0x20));
  EXPECT_THAT(
      [&] { read({path}, TextEncoding::kUtf8); },
      ThrowsMessage<DataError>(path + ": expected UTF-8 text, found '\\x92' at byte 2; convert "
                                      "it to UTF-8 or use the byte tokenizer"));
}

TEST_F(CorpusTest, the_byte_of_an_error_is_counted_in_its_own_file) {
  const std::string good = file("a", "abc"), bad = file("b", kMark + "x\xFF");
  EXPECT_THAT(
      [&] {
        read({good, bad}, TextEncoding::kUtf8);
      },
      ThrowsMessage<DataError>(HasSubstr(bad + ": expected UTF-8 text, found '\\xFF' at "
                                               "byte 4")));
}

TEST_F(CorpusTest, utf16_is_named) {
  using namespace std::string_literals;
  const std::string path = file("a", "\xFF\xFEx\0i\0a\0o\0"s);
  EXPECT_THAT([&] { read({path}, TextEncoding::kUtf8); },
              ThrowsMessage<DataError>(HasSubstr("found a UTF-16 byte-order mark at byte 0")));
  EXPECT_THAT(read({path}, TextEncoding::kBytes).notices,
              ElementsAre(HasSubstr("begins with a UTF-16 byte-order mark")));
  EXPECT_THAT([&] { read({file("b", "\xFE\xFF\0x"s)}, TextEncoding::kUtf8); },
              ThrowsMessage<DataError>(HasSubstr("UTF-16")));
  EXPECT_THAT([&] { read({file("c", "\xFF\xFE\0\0x\0\0\0"s)}, TextEncoding::kUtf8); },
              ThrowsMessage<DataError>(HasSubstr("UTF-32")));
  // Without a mark it is valid UTF-8 full of NULs: said, not refused.
  EXPECT_THAT(read({file("d", "x\0i\0"s)}, TextEncoding::kUtf8).notices,
              ElementsAre(HasSubstr("has 2 NUL characters")));
}

TEST_F(CorpusTest, an_empty_file_is_named_also_among_others) {
  const std::string full = file("a", "abc"), empty = file("b", ""), mark = file("c", kMark);
  EXPECT_THAT(
      [&] {
        read({full, empty}, TextEncoding::kBytes);
      },
      ThrowsMessage<DataError>(empty + ": expected text, found an empty file"));
  EXPECT_THAT([&] { read({mark}, TextEncoding::kUtf8); },
              ThrowsMessage<DataError>(mark + ": expected text, found only a byte-order mark"));
  std::istringstream nothing;
  const std::vector<std::string> dash = {"-"};
  EXPECT_THAT([&] { read_text(dash, TextEncoding::kBytes, nothing); },
              ThrowsMessage<DataError>("standard input: expected text, found an empty file"));
}

TEST_F(CorpusTest, a_missing_file_or_no_file_or_two_dashes_are_errors) {
  EXPECT_THROW(read({(folder_ / "none").string()}, TextEncoding::kBytes), IoError);
  EXPECT_THROW(read({}, TextEncoding::kBytes), ConfigError);
  EXPECT_THROW(read({"-", "-"}, TextEncoding::kBytes), ConfigError);
}

TEST_F(CorpusTest, an_unseen_character_is_named_with_its_file) {
  const CharTokenizer tokenizer = CharTokenizer::from_text("abc");
  const std::string a = file("a", "abcabc"), b = file("b", "ab\xC3\xA9");
  const Text text = read({a, b}, TextEncoding::kUtf8);
  EXPECT_THAT([&] { encode_text(text, tokenizer); },
              ThrowsMessage<DataError>(b + ": expected a character of the vocabulary (3 "
                                           "characters), found '\xC3\xA9' (U+00E9) at byte 2"));
  EXPECT_THAT([&] { make_corpus(text, tokenizer, {.block_size = 2}); },
              ThrowsMessage<DataError>(HasSubstr(b + ": expected a character")));
}

TEST_F(CorpusTest, the_last_tenth_is_held_out) {
  const Corpus corpus = make_corpus(text_of("0123456789012345678901234567890123456789"),
                                    ByteTokenizer(), {.block_size = 3});
  EXPECT_EQ(corpus.train.size(), 36u);
  EXPECT_THAT(corpus.validation, ElementsAre('6', '7', '8', '9'));
  EXPECT_THAT(corpus.notices, IsEmpty());
}

TEST_F(CorpusTest, the_split_counts_characters_and_never_cuts_one) {
  std::string bytes;
  for (int i = 0; i < 20; ++i) bytes += i % 2 == 0 ? "\xF0\x9F\x98\x80" : "a";
  const CharTokenizer tokenizer = CharTokenizer::from_text(bytes);
  const Corpus corpus =
      make_corpus(text_of(bytes), tokenizer, {.block_size = 4, .validation_fraction = 0.25});
  EXPECT_EQ(corpus.train.size(), 15u);
  EXPECT_EQ(corpus.validation.size(), 5u);
  EXPECT_EQ(tokenizer.decode(corpus.train) + tokenizer.decode(corpus.validation), bytes);
}

TEST_F(CorpusTest, tokens_of_several_bytes_are_split_between_characters_too) {
  std::string bytes;
  for (int i = 0; i < 20; ++i) bytes += "\xC3\xA9";
  const BpeTokenizer tokenizer(small_bpe());
  const CorpusOptions options = {.block_size = 4, .validation_fraction = 0.25};
  const Corpus corpus = make_corpus(text_of(bytes), tokenizer, options);
  EXPECT_EQ(corpus.train, std::vector<TokenId>(15, 263));
  EXPECT_EQ(corpus.validation, std::vector<TokenId>(5, 263));
  const Corpus odd = make_corpus(text_of(bytes + "\xFF\x80\x80"), tokenizer, options);
  EXPECT_EQ(tokenizer.decode(odd.train) + tokenizer.decode(odd.validation), bytes + "\xFF\x80\x80");
}

TEST_F(CorpusTest, tinyshakespeare_splits_as_nanogpt_splits_it) {
  const fs::path path =
      fs::path(PRENORM_SOURCE_DIR) / ".." / "shared" / "data" / "tinyshakespeare.txt";
  if (!fs::exists(path)) GTEST_SKIP() << "no " << path;
  const Text text = read({path.string()}, TextEncoding::kUtf8);
  const CharTokenizer tokenizer = CharTokenizer::from_text(text.bytes);
  EXPECT_EQ(tokenizer.vocab_size(), 65);
  const Corpus corpus = make_corpus(text, tokenizer, {.block_size = 64});
  EXPECT_EQ(corpus.train.size(), 1003854u);
  EXPECT_EQ(corpus.validation.size(), 111540u);
}

TEST_F(CorpusTest, a_text_shorter_than_the_context_names_both_numbers) {
  EXPECT_THAT(
      [] { make_corpus(text_of("18 tokens, no more"), ByteTokenizer(), {.block_size = 512}); },
      ThrowsMessage<DataError>(
          "data.txt: expected at least 513 tokens for training with block_size 512, found "
          "18; use a smaller block_size or more text"));
  for (const char* bytes : {"a", "\n\n\n"}) {
    EXPECT_THAT([&] { make_corpus(text_of(bytes), ByteTokenizer(), {.block_size = 8}); },
                ThrowsMessage<DataError>(HasSubstr("data.txt: expected at least 9 tokens")));
  }
  EXPECT_THAT(
      [] {
        make_corpus(text_of("0123456789"), ByteTokenizer(),
                    {.block_size = 4, .validation_fraction = 0.7});
      },
      ThrowsMessage<DataError>(HasSubstr("expected at least 5 tokens for training with block_size "
                                         "4, found 3")));
}

TEST_F(CorpusTest, a_held_out_part_shorter_than_a_window_is_given_back_with_a_notice) {
  const Text text = text_of(std::string(40, 'x'));
  const Corpus corpus = make_corpus(text, ByteTokenizer(), {.block_size = 8});
  EXPECT_THAT(corpus.validation, IsEmpty());
  EXPECT_EQ(corpus.train.size(), 40u);
  EXPECT_THAT(corpus.notices,
              ElementsAre("no validation: 4 tokens held out, block_size 8 needs 9; all 40 are for "
                          "training"));
  const Corpus none =
      make_corpus(text, ByteTokenizer(), {.block_size = 8, .validation_fraction = 0.0});
  EXPECT_THAT(none.notices, ElementsAre(HasSubstr("no validation: 0 tokens held out")));
}

TEST_F(CorpusTest, the_smallest_text_is_one_window) {
  EXPECT_EQ(make_corpus(text_of("ab"), ByteTokenizer(), {.block_size = 1}).train.size(), 2u);
  EXPECT_THROW(make_corpus(text_of("a"), ByteTokenizer(), {.block_size = 1}), DataError);
}

TEST_F(CorpusTest, options_out_of_range_are_named) {
  const Text text = text_of("abc");
  EXPECT_THAT([&] { make_corpus(text, ByteTokenizer(), {.block_size = 0}); },
              ThrowsMessage<ConfigError>("block_size: expected 1 or more, found 0"));
  for (const double fraction : {-0.1, 1.0, std::nan("")}) {
    EXPECT_THAT(
        [&] {
          make_corpus(text, ByteTokenizer(), {.block_size = 1, .validation_fraction = fraction});
        },
        ThrowsMessage<ConfigError>(HasSubstr("validation_fraction: expected 0 or more and less")));
  }
}

TEST_F(CorpusTest, ten_tokens_have_six_windows_of_four) {
  const std::vector<TokenId> tokens = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  EXPECT_EQ(token_window_count(10, 4), 6);
  EXPECT_EQ(token_window_count(5, 4), 1);
  EXPECT_EQ(token_window_count(4, 4), 0);
  EXPECT_EQ(token_window_count(0, 4), 0);
  const TokenWindow last = token_window(tokens, 5, 4);
  EXPECT_THAT(last.inputs, ElementsAre(5, 6, 7, 8));
  EXPECT_THAT(last.targets, ElementsAre(6, 7, 8, 9));
}

}  // namespace
}  // namespace prenorm
