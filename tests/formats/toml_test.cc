#include "prenorm/formats/toml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "prenorm/base/error.h"

namespace prenorm {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Toml, values_keep_their_type_and_their_line) {
  const TomlEntries entries = parse_toml(
      "# a run\n"
      "n_layer = 4\n"
      "learning_rate = 1e-3\n"
      "bias = false\n"
      "out_dir = \"RUN\"\n"
      "data = [\"a.txt\",\n  \"b.txt\"]\n"
      "weight_decay = 1.0\n",
      "c.toml");
  EXPECT_EQ(entries.size(), 6u);
  EXPECT_EQ(std::get<std::int64_t>(entries.at("n_layer").value), 4);
  EXPECT_EQ(entries.at("n_layer").line, 2);
  EXPECT_EQ(std::get<double>(entries.at("learning_rate").value), 1e-3);
  EXPECT_EQ(std::get<bool>(entries.at("bias").value), false);
  EXPECT_EQ(std::get<std::string>(entries.at("out_dir").value), "RUN");
  EXPECT_EQ(std::get<std::vector<std::string>>(entries.at("data").value),
            (std::vector<std::string>{"a.txt", "b.txt"}));
  EXPECT_EQ(std::get<double>(entries.at("weight_decay").value), 1.0);
  EXPECT_EQ(entries.at("weight_decay").line, 8);
}

TEST(Toml, keys_in_tables_are_joined_with_dots) {
  const TomlEntries entries = parse_toml("a.b = 1\n[model]\nn_layer = 2\n", "c.toml");
  EXPECT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries.count("a.b"), 1u);
  EXPECT_EQ(entries.at("model.n_layer").line, 3);
}

TEST(Toml, an_empty_file_has_no_entries) { EXPECT_TRUE(parse_toml("", "c.toml").empty()); }

TEST(Toml, errors_name_the_file_and_the_line) {
  EXPECT_THAT([] { parse_toml("a = 1\nb = \n", "c.toml"); },
              ThrowsMessage<FormatError>(HasSubstr("c.toml:2: expected TOML, found an error: ")));
  EXPECT_THAT([] { parse_toml("a = 1\nb = 2\na = 3\n", "c.toml"); },
              ThrowsMessage<FormatError>(HasSubstr("c.toml:3: expected TOML")));
  EXPECT_THAT([] { parse_toml("\nwhen = 1979-05-27\n", "c.toml"); },
              ThrowsMessage<FormatError>("c.toml:2: when: expected a number, a string, true, false "
                                         "or an array of strings, found a date or a time"));
  EXPECT_THAT(
      [] { parse_toml("sizes = [\n  1,\n  2]\n", "c.toml"); },
      ThrowsMessage<FormatError>("c.toml:2: sizes: expected strings in the array, found a number"));
}

TEST(Toml, what_is_not_toml_is_refused) {
  for (const std::string text : {"{\"a\": 1}", "a", "= 1", "a = 01", "a = \"x", "[a", "a = nul",
                                 "a = 99999999999999999999", "a = \"\xff\"", "a = [1", "\xff"}) {
    EXPECT_THROW(parse_toml(text, "c.toml"), FormatError) << text;
  }
  EXPECT_THROW(parse_toml("a = " + std::string(100000, '['), "c.toml"), FormatError);
  EXPECT_THROW(parse_toml(std::string(17 << 20, '#'), "c.toml"), FormatError);
}

// Tables inside tables are freed recursively: half a million would end the stack.
TEST(Toml, a_key_of_very_many_parts_is_refused) {
  std::string parts;
  for (int i = 0; i < 500000; ++i) parts += "a.";
  for (const std::string& text :
       {parts + "a = 1", "[" + parts + "a]", "x = \"\\\"\"\n" + parts + "a = 1",
        "x = '\\'\n" + parts + "a = 1", "x = \"\"\"\"\"\n\"\"\"\"\"\n" + parts + "a = 1",
        "x = ''\n" + parts + "a = 1", "'q'." + parts + "a = 1", "# \"\n" + parts + "a = 1",
        "x = {" + parts + "a = 1}"}) {
    EXPECT_THAT([&] { parse_toml(text, "c.toml"); },
                ThrowsMessage<FormatError>(HasSubstr("dots outside of strings")));
  }
  // Dots in strings and comments are only text.
  for (const std::string& text : {"a = \"" + parts + "\"", "a = '" + parts + "'",
                                  "# " + parts + "\na = 1", "a = \"\"\"\n\"" + parts + "\"\"\""}) {
    EXPECT_EQ(parse_toml(text, "c.toml").size(), 1u);
  }
}

TEST(Toml, a_missing_file_is_named) {
  EXPECT_THAT([] { load_toml("/no/such.toml"); },
              ThrowsMessage<IoError>(HasSubstr("/no/such.toml: expected a readable file")));
}

TEST(Toml, messages_stay_on_one_line) {
  for (const char* text : {"a = \"\n\"", "a\nb", "\x01\x02", "a = 'x\n"}) {
    try {
      parse_toml(text, "c.toml");
      ADD_FAILURE() << text;
    } catch (const FormatError& error) {
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
      EXPECT_LE(std::string(error.what()).size(), 300u);
    }
  }
}

}  // namespace
}  // namespace prenorm
