#include "prenorm/generate/stop_strings.h"

#include <gtest/gtest.h>

namespace prenorm {
namespace {

TEST(StopStrings, text_ends_before_the_first_of_them) {
  StopStrings stop({"STOP", "end"});
  EXPECT_EQ(stop.feed("one end STOP"), "one ");
  EXPECT_TRUE(stop.found());
  EXPECT_EQ(stop.feed("more"), "");
  EXPECT_EQ(stop.finish(), "");
}

TEST(StopStrings, one_spread_over_pieces_is_found_and_never_shown) {
  StopStrings stop({"\n\n"});
  EXPECT_EQ(stop.feed("a\n"), "a");
  EXPECT_EQ(stop.feed("\nb"), "");
  EXPECT_TRUE(stop.found());
}

TEST(StopStrings, what_only_began_like_one_is_shown_when_that_is_certain) {
  StopStrings stop({"abcd"});
  EXPECT_EQ(stop.feed("xab"), "x");
  EXPECT_EQ(stop.feed("c"), "");
  EXPECT_EQ(stop.feed("abc"), "abc");
  EXPECT_EQ(stop.finish(), "abc");
  EXPECT_FALSE(stop.found());
}

TEST(StopStrings, a_beginning_inside_a_beginning_is_found) {
  StopStrings stop({"aab"});
  EXPECT_EQ(stop.feed("a"), "");
  EXPECT_EQ(stop.feed("a"), "");
  EXPECT_EQ(stop.feed("a"), "a");
  EXPECT_EQ(stop.feed("b"), "");
  EXPECT_TRUE(stop.found());
}

TEST(StopStrings, without_strings_everything_passes_at_once) {
  StopStrings stop({""});
  EXPECT_EQ(stop.feed("text"), "text");
  EXPECT_FALSE(stop.found());
}

}  // namespace
}  // namespace prenorm
