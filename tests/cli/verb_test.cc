#include "prenorm/cli/verb.h"

#include <gtest/gtest.h>

#include <string>

namespace prenorm::cli {
namespace {

TEST(Verb, every_verb_has_help_for_each_option_and_no_name_twice) {
  for (const VerbEntry& entry : all_verbs()) {
    OptionTable table;
    const auto verb = entry.make();
    verb->declare(table);
    ASSERT_FALSE(table.options().empty()) << entry.name;
    ASSERT_NE(table.find("config"), nullptr) << entry.name;
    std::string letters;
    for (const Option& option : table.options()) {
      EXPECT_FALSE(option.help.empty()) << entry.name << " --" << option.name;
      EXPECT_FALSE(option.group.empty()) << entry.name << " --" << option.name;
      EXPECT_EQ(table.find(option.name), &option) << entry.name << " --" << option.name;
      if (option.letter != 0) {
        EXPECT_EQ(letters.find(option.letter), std::string::npos) << entry.name;
        letters += option.letter;
      }
    }
  }
}

TEST(Verb, names_are_unique_and_examples_use_them) {
  std::string names;
  for (const VerbEntry& entry : all_verbs()) {
    const std::string name(entry.name);
    EXPECT_EQ(names.find(" " + name + " "), std::string::npos) << name;
    names += " " + name + " ";
    EXPECT_TRUE(entry.example.starts_with("prenorm " + name)) << name;
    EXPECT_TRUE(entry.usage.starts_with("prenorm " + name)) << name;
  }
}

}  // namespace
}  // namespace prenorm::cli
