#include "prenorm/study/diagnose_advice.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace prenorm
