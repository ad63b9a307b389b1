#include "prenorm/study/diagnose_advice.h"

#include <gmock/gmock.h>

#include <fstream>
#include <iterator>
#include <string>

#include "prenorm/base/error.h"
#include "prenorm/reference/mistake_table.h"

namespace prenorm {
namespace {

TEST(Advice, is_given_on_every_mistake_of_the_table_in_its_order) {
  const auto table = reference::mistakes();
  const auto advice = mistake_advice();
  ASSERT_EQ(advice.size(), table.size());
  for (std::size_t i = 0; i < table.size(); ++i) EXPECT_EQ(advice[i].name, table[i].name);
}

TEST(Advice, is_a_sentence_a_line_and_a_place) {
  for (const MistakeAdvice& advice : mistake_advice()) {
    EXPECT_TRUE(advice.sentence.ends_with('.')) << advice.name;
    EXPECT_FALSE(advice.fix.empty()) << advice.name;
    EXPECT_EQ(advice.fix.find('\n'), std::string_view::npos) << advice.name;
    EXPECT_GT(advice.example.size(), 20u) << advice.name;
    EXPECT_EQ(&advice_on(advice.name), &advice);
  }
  EXPECT_THROW(advice_on("norm.dof"), ConfigError);
}

TEST(Advice, is_what_the_page_tells) {
  std::ifstream file(std::string(PRENORM_SOURCE_DIR) + "/docs/diagnose.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  for (const MistakeAdvice& advice : mistake_advice()) {
    EXPECT_THAT(page,
                testing::HasSubstr("| `" + std::string(advice.name) + "` | " +
                                   std::string(advice.sentence) + " | `" + std::string(advice.fix) +
                                   "` | " + std::string(advice.example) + " |"));
  }
}

}  // namespace
}  // namespace prenorm
