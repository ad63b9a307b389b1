#include "prenorm/cli/option_table.h"

#include <gtest/gtest.h>

namespace prenorm::cli {
namespace {

TEST(OptionTable, names_lead_to_variables_and_keys) {
  EXPECT_EQ(environment_name("learning-rate"), "PRENORM_LEARNING_RATE");
  EXPECT_EQ(toml_key("learning-rate"), "learning_rate");
}

TEST(OptionTable, a_default_is_the_variables_value) {
  double rate = 6e-5;
  int layers = 3;
  bool bias = false;
  OptionTable table;
  table.real("rate", rate, {}, "");
  table.integer("layers", layers, {}, "");
  table.toggle("bias", bias, "");
  EXPECT_EQ(table.find("rate")->default_text, "6e-05");
  EXPECT_EQ(table.find("layers")->default_text, "3");
  EXPECT_EQ(table.find("bias")->default_text, "--no-bias");
}

TEST(OptionTable, an_integer_never_leaves_its_variables_type) {
  int value = 1;
  OptionTable table;
  table.integer("n", value, {}, "");
  EXPECT_FALSE(table.options().front().assign({"2147483648"}));
  EXPECT_EQ(value, 1);
  EXPECT_TRUE(table.options().front().assign({"-2147483648"}));
}

}  // namespace
}  // namespace prenorm::cli
