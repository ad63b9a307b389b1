#include "prenorm/cli/option_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/options_fixture.h"

namespace prenorm::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using OptionReader = OptionsFixture;

TEST_F(OptionReader, keep_their_defaults_when_nothing_is_given) {
  EXPECT_TRUE(read({}));
  EXPECT_EQ(layers_, 4);
  EXPECT_FALSE(table_.given("n-layer"));
}

TEST_F(OptionReader, a_flag_overrules_the_environment_and_that_the_file_and_that_the_default) {
  const std::string config = file("n_layer = 10\nlearning_rate = 10\ntop_p = 0.1\nbias = false\n");
  read({"--config", config, "--n-layer", "12"},
       {{"PRENORM_N_LAYER", "11"}, {"PRENORM_LEARNING_RATE", "11"}});
  EXPECT_EQ(layers_, 12);
  EXPECT_EQ(rate_, 11);
  EXPECT_EQ(top_p_, 0.1);
  EXPECT_FALSE(bias_);
  EXPECT_EQ(norm_, "pre");
}

TEST_F(OptionReader, the_environment_may_name_the_file) {
  read({}, {{"PRENORM_CONFIG", file("n_layer = 10")}});
  EXPECT_EQ(layers_, 10);
}

TEST_F(OptionReader, given_values_can_be_applied_again_over_others) {
  read({"--n-layer", "7"});
  layers_ = 3;
  rate_ = 0.25;
  table_.apply_given();
  EXPECT_EQ(layers_, 7);
  EXPECT_EQ(rate_, 0.25);
}

TEST_F(OptionReader, wrong_values_in_weaker_sources_are_found_too) {
  EXPECT_EQ(error({"--n-layer", "5"}, {{"PRENORM_N_LAYER", "many"}}),
            "PRENORM_N_LAYER: expected a whole number from 1 to 100, found 'many'");
}

TEST_F(OptionReader, an_unknown_variable_is_an_error_unless_another_verb_knows_it) {
  EXPECT_EQ(error({}, {{"PRENORM_N_LAYERS", "3"}}),
            "PRENORM_N_LAYERS: expected the variable of a known option, found 'PRENORM_N_LAYERS'; "
            "did you mean PRENORM_N_LAYER?");
  EXPECT_TRUE(read({}, {{"PRENORM_SAMPLES", "3"}}));
}

}  // namespace
}  // namespace prenorm::cli
