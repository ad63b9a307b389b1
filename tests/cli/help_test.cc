#include "prenorm/cli/help.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace prenorm::cli {
namespace {

using testing::HasSubstr;

std::size_t columns(const std::string& line) {
  std::size_t count = 0;
  for (char c : line) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80 ? 1 : 0;
  return count;
}

TEST(Help, a_page_lists_each_flag_with_its_default_and_fits_100_columns) {
  for (const VerbEntry& entry : all_verbs()) {
    OptionTable table;
    const auto verb = entry.make();
    verb->declare(table);
    const std::string page = verb_help(entry, table);
    for (const Option& option : table.options()) {
      EXPECT_THAT(page, HasSubstr(option.name)) << entry.name;
    }
    EXPECT_THAT(page, HasSubstr(std::string(entry.example)));
    std::istringstream lines(page);
    for (std::string line; std::getline(lines, line);) {
      if (line.find(entry.example) != std::string::npos) continue;
      EXPECT_LE(columns(line), 100u) << line;
    }
  }
}

TEST(Help, defaults_are_those_of_the_variables) {
  const VerbEntry& entry = all_verbs().front();
  OptionTable table;
  int count = 42;
  table.group("Things");
  table.integer("count", count, {}, "how many").short_name('c');
  EXPECT_THAT(verb_help(entry, table), HasSubstr("  -c, --count N               how many [42]\n"));
}

TEST(Help, the_programs_page_names_every_verb) {
  const std::string page = program_help(all_verbs());
  for (const VerbEntry& entry : all_verbs()) EXPECT_THAT(page, HasSubstr(std::string(entry.name)));
}

}  // namespace
}  // namespace prenorm::cli
