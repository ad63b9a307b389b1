#include "prenorm/base/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "prenorm/base/error.h"

namespace prenorm {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::string nested(int levels) {
  return std::string(static_cast<std::size_t>(levels), '[') +
         std::string(static_cast<std::size_t>(levels), ']');
}

TEST(Json, keeps_keys_in_their_order_and_writes_the_same_bytes_again) {
  const std::string text =
      "{\n  \"b\": 1,\n  \"a\": [\n    true,\n    null,\n    \"\xC3\xA9\"\n  ],\n"
      "  \"eps\": 1e-05,\n  \"none\": {}\n}\n";
  EXPECT_EQ(dump_json(parse_json(text, "x.json")), text);
  EXPECT_EQ(dump_json_compact(parse_json(text, "x.json")),
            "{\"b\":1,\"a\":[true,null,\"\xC3\xA9\"],\"eps\":1e-05,\"none\":{}}");
}

TEST(Json, numbers_keep_their_kind_and_their_value) {
  const Json json = parse_json("[18446744073709551615, -9223372036854775808, 0.1, 1.0, -0]", "x");
  EXPECT_EQ(json[0].get<std::uint64_t>(), ~std::uint64_t{0});
  EXPECT_EQ(json[1].get<std::int64_t>(), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(json[2].get<double>(), 0.1);
  EXPECT_TRUE(json[3].is_number_float());
  EXPECT_FALSE(json[4].is_number_unsigned());
}

TEST(Json, refuses_a_key_twice_and_says_where) {
  EXPECT_THAT([] { parse_json("{\"a\":1,\"b\":{\"a\":2},\"a\":3}", "x.json"); },
              ThrowsMessage<FormatError>(
                  "x.json: expected each key once in an object, found 'a' twice at byte 21"));
  EXPECT_NO_THROW(parse_json("[{\"a\":1},{\"a\":1}]", "x.json"));
}

TEST(Json, refuses_nesting_beyond_the_limit) {
  EXPECT_NO_THROW(parse_json(nested(64), "x.json"));
  EXPECT_THAT([] { parse_json(nested(65), "x.json"); },
              ThrowsMessage<FormatError>(
                  "x.json: expected at most 64 levels of nesting, found more at byte 64"));
  // Far beyond what a recursive parser's stack would hold.
  EXPECT_THROW(parse_json(std::string(1000000, '['), "x.json"), FormatError);
}

TEST(Json, refuses_text_beyond_the_limit) {
  EXPECT_THAT([] { parse_json("[1,2]", "x.json", {.bytes = 4}); },
              ThrowsMessage<FormatError>("x.json: expected at most 4 bytes of JSON, found 5"));
}

TEST(Json, names_the_byte_of_an_error) {
  EXPECT_THAT([] { parse_json("{\"a\": nul}", "x.json"); },
              ThrowsMessage<FormatError>(HasSubstr("x.json: expected JSON, found ")));
  EXPECT_THAT([] { parse_json("{\"a\": 1} x", "x.json"); },
              ThrowsMessage<FormatError>(HasSubstr("at byte 9")));
}

TEST(Json, refuses_what_the_grammar_refuses) {
  for (const char* text :
       {"", " ", "{", "[1,]", "{\"a\":1,}", "{a:1}", "[01]", "[NaN]", "[Infinity]", "[1e999]",
        "\"\x80\"", "\"\\ud800\"", "\"\\x\"", "// c\n1", "1 2", "[1}", "\"a", "\"\n\"", "tru"}) {
    EXPECT_THROW(parse_json(text, "x.json"), FormatError) << text;
  }
}

TEST(Json, a_nul_is_an_error_wherever_it_stands) {
  using std::string_view_literals::operator""sv;
  for (const std::string_view text :
       {"{}\0"sv, "{}\0{\"a\":1}"sv, "[1,\0 2]"sv, "\0{}"sv, "\"\0\""sv}) {
    EXPECT_THAT([&] { parse_json(text, "x.json"); },
                ThrowsMessage<FormatError>(HasSubstr("x.json: expected JSON, found")));
  }
  EXPECT_THAT([&] { parse_json("{} \0x"sv, "x.json"); },
              ThrowsMessage<FormatError>(HasSubstr("'\\x00' at byte 3")));
  EXPECT_EQ(parse_json("[\"\\u0000\"]", "x.json").at(0), std::string(1, '\0'));
}

TEST(Json, a_vocabulary_of_many_keys_is_read_in_linear_time) {
  std::string text = "{";
  for (int i = 0; i < 200000; ++i) {
    text += (i > 0 ? ",\"" : "\"") + std::to_string(i) + "\":" + std::to_string(i);
  }
  const Json json = parse_json(text + "}", "vocab.json");  // minutes if each key were looked up
  EXPECT_EQ(json.size(), 200000u);
  EXPECT_EQ(std::prev(json.end()).key(), "199999");
}

TEST(Json, text_that_is_not_utf8_is_written_with_replacement_characters) {
  EXPECT_EQ(dump_json_compact(Json("it\x92s")), "\"it\xEF\xBF\xBDs\"");
}

TEST(Json, every_truncation_of_a_document_is_an_error) {
  const std::string text = "{\"a\":[1,{\"b\":\"c\"}],\"d\":null}";
  for (std::size_t n = 0; n < text.size(); ++n) {
    EXPECT_THROW(parse_json(text.substr(0, n), "x"), FormatError) << n;
  }
}

}  // namespace
}  // namespace prenorm
