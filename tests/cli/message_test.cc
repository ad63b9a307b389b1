#include "prenorm/cli/message.h"

#include <gtest/gtest.h>

namespace prenorm::cli {
namespace {

TEST(Message, an_error_is_one_line_with_the_programs_name) {
  EXPECT_EQ(error_lines("--temp: expected a number, found 'nan'"),
            "prenorm: --temp: expected a number, found 'nan'\n");
}

TEST(Message, line_ends_and_control_characters_inside_are_escaped) {
  EXPECT_EQ(error_lines("a\nb\033[31m\xFF"), "prenorm: a\\x0Ab\\x1B[31m\\xFF\n");
}

TEST(Message, a_line_has_at_most_300_bytes_and_ends_between_characters) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += "é";
  const std::string line = error_lines(text);
  EXPECT_LE(line.size(), 301u);
  EXPECT_GE(line.size(), 298u);
  EXPECT_TRUE(line.ends_with("é...\n")) << line;
}

TEST(Message, a_list_goes_on_in_lines_of_its_own) {
  EXPECT_EQ(error_lines("model: expected all tensors, found 2 missing\n  a.weight\n  b.weight"),
            "prenorm: model: expected all tensors, found 2 missing\n  a.weight\n  b.weight\n");
}

TEST(Message, a_prefix_never_splits_a_character) {
  EXPECT_EQ(prefix_of_characters("aé", 2), "a");
  EXPECT_EQ(prefix_of_characters("aé", 3), "aé");
  EXPECT_EQ(prefix_of_characters("日本", 5), "日");
}

}  // namespace
}  // namespace prenorm::cli
