#include "prenorm/text/gpt2_pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "prenorm/base/utf8.h"
#include "prenorm/text/unicode_classes.h"

namespace prenorm {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> pieces(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    out.emplace_back(text.substr(0, gpt2_piece_length(text)));
    text.remove_prefix(out.back().size());
  }
  return out;
}

TEST(Gpt2Pattern, a_blank_belongs_to_the_word_after_it) {
  EXPECT_THAT(pieces("Hello world  again"), ElementsAre("Hello", " world", " ", " again"));
  EXPECT_THAT(pieces(" 12ab !?x"), ElementsAre(" 12", "ab", " !?", "x"));
}

TEST(Gpt2Pattern, white_space_leaves_its_last_character_to_what_follows) {
  EXPECT_THAT(pieces("a \n\n b"), ElementsAre("a", " \n\n", " b"));
  EXPECT_THAT(pieces("a\t\tb"), ElementsAre("a", "\t", "\t", "b"));
  EXPECT_THAT(pieces("a  \xC2\xA0"
                     "b"),
              ElementsAre("a", "  ", "\xC2\xA0", "b"));
  EXPECT_THAT(pieces("Hello   "), ElementsAre("Hello", "   "));
  EXPECT_THAT(pieces(" "), ElementsAre(" "));
}

TEST(Gpt2Pattern, contractions_are_lower_case_and_come_before_punctuation) {
  EXPECT_THAT(pieces("we'll I'Ll they're 's ''s"),
              ElementsAre("we", "'ll", " I", "'", "Ll", " they", "'re", " '", "s", " ''", "s"));
  EXPECT_THAT(pieces("a'rb'vec'"), ElementsAre("a", "'", "rb", "'ve", "c", "'"));
}

TEST(Gpt2Pattern, bytes_that_are_not_utf8_are_punctuation) {
  EXPECT_THAT(pieces("a\xFF\xC3!b"), ElementsAre("a", "\xFF\xC3!", "b"));
  EXPECT_THAT(pieces(" \xF0\x9F"), ElementsAre(" \xF0\x9F"));
}

// The regular expression, alternative by alternative and backing up as an engine does.
class Textbook {
 public:
  explicit Textbook(std::string_view text) : text_(text) {}

  std::size_t first_piece() const {
    for (std::string_view word : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
      if (text_.starts_with(word)) return word.size();
    }
    using enum CharacterClass;
    for (const CharacterClass what : {kLetter, kNumber, kOther}) {
      for (std::size_t blanks : {1, 0}) {
        if (blanks == 1 && !text_.starts_with(' ')) continue;
        if (const auto ends = run(what, blanks); !ends.empty()) return ends.back();
      }
    }
    const std::vector<std::size_t> ends = run(kSpace, 0);
    for (auto end = ends.rbegin(); end != ends.rend(); ++end) {
      if (*end == text_.size() || class_at(*end).first == kSpace) return *end;
    }
    return ends.back();
  }

 private:
  std::pair<CharacterClass, std::size_t> class_at(std::size_t at) const {
    const Utf8Step step = utf8_step(text_.substr(at));
    return {step.valid ? character_class(step.code_point) : CharacterClass::kOther, step.length};
  }
  // Ends of one, two, … characters of a class.
  std::vector<std::size_t> run(CharacterClass what, std::size_t at) const {
    std::vector<std::size_t> ends;
    while (at < text_.size()) {
      const auto [found, length] = class_at(at);
      if (found != what) break;
      ends.push_back(at += length);
    }
    return ends;
  }

  std::string_view text_;
};

TEST(Gpt2Pattern, random_texts_are_cut_as_the_regular_expression_says) {
  const std::vector<std::string> symbols = {" ",        " ",
                                            "\n",       "\t",
                                            "\xC2\xA0", "\xE3\x80\x80",
                                            "a",        "\xC3\xA9",
                                            "Z",        "1",
                                            "\xC2\xBD", "!",
                                            "'",        "'",
                                            "s",        "t",
                                            "r",        "e",
                                            "l",        "\xF0\x9F\x98\x80",
                                            "\xFF",     "\xE2",
                                            "\xCC\x81"};
  std::mt19937 random(1);
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (unsigned n = 1 + random() % 12; n > 0; --n) text += symbols[random() % symbols.size()];
    for (std::size_t at = 0; at < text.size();) {
      const std::string_view rest = std::string_view(text).substr(at);
      const std::size_t length = gpt2_piece_length(rest);
      ASSERT_EQ(length, Textbook(rest).first_piece()) << testing::PrintToString(text) << " " << at;
      at += length;
    }
  }
}

}  // namespace
}  // namespace prenorm
