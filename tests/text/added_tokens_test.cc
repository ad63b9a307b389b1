#include "prenorm/text/added_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace prenorm {
namespace {

using ::testing::ElementsAre;
using Shown = std::vector<std::pair<std::string, TokenId>>;

Shown split(const AddedTokens& tokens, std::string_view text, bool special) {
  Shown out;
  for (const auto& part : tokens.split(text, special)) out.emplace_back(part.text, part.id);
  return out;
}

TEST(AddedTokens, text_is_cut_at_each_token) {
  const AddedTokens tokens(std::vector<AddedToken>{{"<e>", 7}});
  EXPECT_EQ(split(tokens, "<e>a<e><e>b<", true),
            (Shown{{"<e>", 7}, {"a", -1}, {"<e>", 7}, {"<e>", 7}, {"b<", -1}}));
  EXPECT_EQ(split(tokens, "ab", true), (Shown{{"ab", -1}}));
  EXPECT_EQ(split(tokens, "", true), Shown());
  EXPECT_EQ(split(AddedTokens(), "<e>", true), (Shown{{"<e>", -1}}));
}

TEST(AddedTokens, special_ones_are_text_where_they_are_not_asked_for) {
  const AddedTokens tokens(std::vector<AddedToken>{{"<e>", 7, true}, {"<n>", 8, false}});
  EXPECT_EQ(split(tokens, "a<e>b<n>", false), (Shown{{"a<e>b", -1}, {"<n>", 8}}));
  EXPECT_EQ(split(tokens, "a<e>b<n>", true), (Shown{{"a", -1}, {"<e>", 7}, {"b", -1}, {"<n>", 8}}));
}

TEST(AddedTokens, the_longest_of_the_leftmost_is_taken) {
  const AddedTokens tokens(
      std::vector<AddedToken>{{"ab", 1, false}, {"abc", 2, false}, {"bcd", 3, false}});
  EXPECT_EQ(split(tokens, "abcd", false), (Shown{{"abc", 2}, {"d", -1}}));
  EXPECT_EQ(split(tokens, "abbcd", false), (Shown{{"ab", 1}, {"bcd", 3}}));
}

TEST(AddedTokens, normalized_ones_are_looked_for_in_what_the_others_leave) {
  const AddedTokens tokens(
      std::vector<AddedToken>{{"xab", 1, false, true}, {"bc", 2, false, false}});
  EXPECT_EQ(split(tokens, "xabc xab", false),
            (Shown{{"xa", -1}, {"bc", 2}, {" ", -1}, {"xab", 1}}));
}

TEST(AddedTokens, thousands_with_the_same_beginning_take_no_longer) {
  std::vector<AddedToken> many;
  for (TokenId id = 0; id < 8000; ++id) {
    many.push_back({"aaaaaaaa" + std::to_string(10000 + id), id, false});
  }
  many.push_back({"aaa", 9000, false});
  const AddedTokens tokens(many);
  const std::string text = std::string(200'000, 'a') + "12345b";  // looked through: 1.6e9 compares
  const Shown parts = split(tokens, text, false);
  ASSERT_EQ(parts.size(), 66'666u);
  EXPECT_EQ(parts[0], (std::pair<std::string, TokenId>{"aaa", 9000}));
  EXPECT_EQ(split(tokens, "aaaaaaaa12345b", false), (Shown{{"aaaaaaaa12345", 2345}, {"b", -1}}));
}

TEST(AddedTokens, a_token_between_a_text_and_its_beginning_hides_nothing) {
  const AddedTokens tokens(std::vector<AddedToken>{
      {"a", 1, false}, {"ab", 2, false}, {"abc", 3, false}, {"abca", 4, false}, {"b", 5, false}});
  EXPECT_EQ(split(tokens, "abcb", false), (Shown{{"abc", 3}, {"b", 5}}));
  EXPECT_EQ(split(tokens, "abx", false), (Shown{{"ab", 2}, {"x", -1}}));
  EXPECT_EQ(split(tokens, "aab", false), (Shown{{"a", 1}, {"ab", 2}}));
  EXPECT_EQ(split(tokens, "abca", false), (Shown{{"abca", 4}}));
  EXPECT_EQ(split(tokens, "ac", false), (Shown{{"a", 1}, {"c", -1}}));
}

// As with Hugging Face's split_special_tokens.
TEST(AddedTokens, a_special_token_that_is_text_hides_what_begins_inside_it) {
  const AddedTokens tokens(std::vector<AddedToken>{{"<ab>", 1, true}, {"b>c", 2, false}});
  EXPECT_EQ(split(tokens, "<ab>c b>c", false), (Shown{{"<ab>c ", -1}, {"b>c", 2}}));
}

}  // namespace
}  // namespace prenorm
