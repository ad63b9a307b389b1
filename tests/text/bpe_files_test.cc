#include "prenorm/text/bpe_files.h"

#include "prenorm/base/error.h"
#include "tests/text/small_bpe.h"
#include "tests/text/tokenizer_folder.h"

namespace prenorm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

class BpeFiles : public TokenizerFolder {
 protected:
  void write(const std::string& name, const std::string& text) {
    write_file_durably(path_ / name, text);
  }
};

constexpr const char* kVocab = R"({"a": 0, "b": 1, "ab": 2, "<|endoftext|>": 3})";

TEST_F(BpeFiles, vocabulary_and_merges_are_read_under_both_names) {
  write("encoder.json", kVocab);
  write("vocab.bpe", "#version: 0.2\na b\n");
  const BpeModel model = read_bpe_model(path_);
  EXPECT_THAT(model.tokens, ElementsAre("a", "b", "ab", "<|endoftext|>"));
  EXPECT_THAT(model.merges, ElementsAre(BpeMerge{0, 1, 2}));
  EXPECT_THAT(model.added_tokens, ElementsAre(AddedToken{"<|endoftext|>", 3, true, false}));
  write("vocab.json", R"({"a": 0, "aa": 1})");
  write("merges.txt", "a a");
  EXPECT_THAT(read_bpe_model(path_).merges, ElementsAre(BpeMerge{0, 0, 1}));
  EXPECT_THAT(read_bpe_model(path_).added_tokens, IsEmpty());
}

TEST_F(BpeFiles, tokenizer_json_comes_first_and_is_read_as_it_was_saved) {
  write("vocab.json", "{");
  save_bpe_model(path_, small_bpe());
  const BpeModel model = read_bpe_model(path_);
  EXPECT_EQ(model.tokens, small_bpe().tokens);
  EXPECT_EQ(model.merges, small_bpe().merges);
  EXPECT_EQ(model.added_tokens, small_bpe().added_tokens);
  const Json config = parse_json(read_file(path_ / "tokenizer_config.json"), "x");
  EXPECT_EQ(config["eos_token"], "<|endoftext|>");
}

TEST_F(BpeFiles, missing_files_are_named) {
  EXPECT_THAT([&] { read_bpe_model(path_); },
              ThrowsMessage<IoError>(HasSubstr("encoder.json and vocab.bpe, found none of them")));
  write("vocab.json", kVocab);
  EXPECT_THAT([&] { read_bpe_model(path_); },
              ThrowsMessage<IoError>(HasSubstr("merges.txt: expected a readable file")));
}

TEST_F(BpeFiles, a_broken_vocabulary_is_refused_with_its_name) {
  write("merges.txt", "a b\n");
  const auto refused = [&](const char* says, const char* vocab) {
    write("vocab.json", vocab);
    EXPECT_THAT([&] { read_bpe_model(path_); },
                ThrowsMessage<FormatError>(
                    ::testing::AllOf(HasSubstr("vocab.json: expected"), HasSubstr(says))));
  };
  refused("vocab.json: expected JSON", R"({"a": 0, "b": 1)");
  refused("each key once in an object, found 'a' twice", R"({"a": 0, "a": 1})");
  refused("each id once, found 0 for 'a' and 'b'", R"({"a": 0, "b": 0})");
  refused("ids 0 to 1, found 2 for 'b'", R"({"a": 0, "b": 2})");
  refused("ids 0 to 1, found \"1\" for 'b'", R"({"a": 0, "b": "1"})");
  refused("a vocabulary, found []", "[]");
  write("vocab.json", R"({"a": 0, "b": 1})");
  EXPECT_THAT([&] { read_bpe_model(path_); },
              ThrowsMessage<FormatError>(HasSubstr(
                  "merges.txt: expected tokens of the vocabulary in merge 1, 'a' + 'b', found")));
}

TEST_F(BpeFiles, lines_of_merges_end_as_the_system_likes) {
  const auto count = [](std::string_view text) { return parse_merges(text, "m").size(); };
  EXPECT_EQ(count(""), 0u);
  EXPECT_EQ(count("#version: 0.2\n"), 0u);
  EXPECT_EQ(count("#version: 0.2\r\na b\r\nc d\r\n"), 2u);
  EXPECT_EQ(count("a b\nc d"), 2u);
  EXPECT_EQ(count("a b\nc d\n\n"), 2u);
  EXPECT_EQ(parse_merges("a b\r\n", "m")[0].right, "b");
  EXPECT_EQ(parse_merges("# #\n", "m")[0].left, "#");
}

TEST_F(BpeFiles, a_line_that_is_no_merge_is_named) {
  const auto refused = [&](const char* says, const char* text) {
    EXPECT_THAT([&] { parse_merges(text, "m"); }, ThrowsMessage<FormatError>(HasSubstr(says)));
  };
  refused("m: expected two tokens with a blank between them in line 2, found 'ab'", "a b\nab\n");
  refused("line 1, found 'a  b'", "a  b\n");
  refused("line 1, found 'a '", "a \n");
  refused("line 2, found ''", "a b\n\nc d\n");
  refused("line 2, found '#version'", "a b\n#version\n");
}

}  // namespace
}  // namespace prenorm
