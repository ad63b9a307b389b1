#include "prenorm/cli/config_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/options_fixture.h"

namespace prenorm::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using ConfigFile = OptionsFixture;

TEST_F(ConfigFile, a_verbs_own_table_overrules_the_top_of_the_file_and_others_are_passed_over) {
  read({"--config", file("n_layer = 10\n[train]\nn_layer = 11\ndata = [\"a\", \"b\"]\n"
                         "[generate]\nsamples = 3\n")});
  EXPECT_EQ(layers_, 11);
  EXPECT_THAT(data_, ElementsAre("a", "b"));
}

TEST_F(ConfigFile, an_unknown_key_names_file_line_and_the_nearest_known) {
  const std::string misspelt = file("\nlerning_rate = 3\n");
  EXPECT_EQ(error({"--config", misspelt}),
            misspelt +
                ":2: lerning_rate: expected a known key, found 'lerning_rate'; did you mean "
                "learning_rate?");
  EXPECT_THAT(error({"--config", file("[train]\nn_layr = 3\n")}),
              HasSubstr("n_layr: expected a known key, found 'n_layr'; did you mean n_layer?"));
  EXPECT_THAT(error({"--config", file("[generate]\nn_layer = 3\n")}),
              HasSubstr("expected a known key, found 'n_layer'"));
  EXPECT_THAT(error({"--config", file("[trian]\nn_layer = 3\n")}),
              HasSubstr("expected a known key"));
}

TEST_F(ConfigFile, a_value_of_another_type_than_the_options_is_an_error) {
  EXPECT_THAT(error({"--config", file("n_layer = \"4\"")}),
              HasSubstr("n_layer: expected an integer, found a string"));
  EXPECT_THAT(error({"--config", file("n_layer = 4.0")}),
              HasSubstr("n_layer: expected an integer, found a floating-point number"));
  EXPECT_THAT(error({"--config", file("bias = 1")}),
              HasSubstr("bias: expected true or false, found an integer"));
  EXPECT_THAT(error({"--config", file("n_layer = 400")}),
              HasSubstr("n_layer: expected a whole number from 1 to 100, found '400'"));
}

TEST_F(ConfigFile, a_file_that_is_missing_or_no_toml_is_bad_input) {
  EXPECT_THROW(read({"--config", "/nonexistent.toml"}), IoError);
  EXPECT_THROW(read({"--config", file("n_layer = = 3")}), FormatError);
}

}  // namespace
}  // namespace prenorm::cli
