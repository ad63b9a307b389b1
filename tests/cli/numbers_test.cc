#include "prenorm/cli/numbers.h"

#include <gtest/gtest.h>

#include <cmath>

namespace prenorm::cli {
namespace {

TEST(Numbers, an_integer_is_the_whole_token_or_nothing) {
  EXPECT_EQ(parse_integer("-12"), -12);
  EXPECT_EQ(parse_integer("9223372036854775807"), 9223372036854775807);
  for (const char* text :
       {"", " 1", "1 ", "1.0", "1e3", "0x10", "+1", "1k", "--1", "9223372036854775808"}) {
    EXPECT_FALSE(parse_integer(text)) << text;
  }
}

TEST(Numbers, a_seed_uses_all_64_bits_and_has_no_sign) {
  EXPECT_EQ(parse_unsigned("18446744073709551615"), 18446744073709551615u);
  EXPECT_FALSE(parse_unsigned("18446744073709551616"));
  EXPECT_FALSE(parse_unsigned("-1"));
}

TEST(Numbers, a_real_is_the_whole_token_or_nothing) {
  EXPECT_EQ(parse_real("1e-3"), 1e-3);
  EXPECT_EQ(parse_real(".5"), 0.5);
  EXPECT_TRUE(std::isnan(parse_real("nan").value()));
  for (const char* text : {"", "1e", "0.5x", "1,5", " 1", "0x1p3", "1e999"}) {
    EXPECT_FALSE(parse_real(text)) << text;
  }
}

TEST(Numbers, a_boolean_is_one_of_eight_words) {
  for (const char* text : {"true", "yes", "on", "1"}) EXPECT_EQ(parse_boolean(text), true) << text;
  for (const char* text : {"false", "no", "off", "0"}) {
    EXPECT_EQ(parse_boolean(text), false) << text;
  }
  for (const char* text : {"", "True", "2", "y"}) EXPECT_FALSE(parse_boolean(text)) << text;
}

}  // namespace
}  // namespace prenorm::cli
