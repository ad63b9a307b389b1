#include "prenorm/cli/arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/options_fixture.h"

namespace prenorm::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Arguments = OptionsFixture;

TEST_F(Arguments, are_set_by_flags_in_every_spelling) {
  read({"--n-layer", "7", "--learning_rate=1e-3", "--no-bias", "--norm=post", "-p", "-x", "a.txt",
        "--seed", "18446744073709551615"});
  EXPECT_EQ(layers_, 7);
  EXPECT_EQ(rate_, 1e-3);
  EXPECT_FALSE(bias_);
  EXPECT_EQ(norm_, "post");
  EXPECT_EQ(prompt_, "-x");
  EXPECT_THAT(data_, ElementsAre("a.txt"));
  EXPECT_EQ(seed_, 18446744073709551615u);
}

TEST_F(Arguments, the_last_of_a_repeated_flag_counts) {
  read({"--n-layer", "7", "--n-layer", "8", "--bias", "--no-bias"});
  EXPECT_EQ(layers_, 8);
  EXPECT_FALSE(bias_);
}

TEST_F(Arguments, files_may_be_arguments_or_follow_their_flag_and_a_dash_is_one) {
  read({"a.txt", "--data", "b.txt", "-", "--n-layer", "5"});
  EXPECT_THAT(data_, ElementsAre("a.txt", "b.txt", "-"));
  read({"--", "--strange-name"});
  EXPECT_THAT(data_, ElementsAre("--strange-name"));
}

TEST_F(Arguments, resume_and_resume_auto_are_the_same) {
  read({"--resume", "auto", "text.txt"});
  EXPECT_TRUE(resume_);
  EXPECT_THAT(data_, ElementsAre("text.txt"));
  resume_ = false;
  read({"--resume=auto"});
  EXPECT_TRUE(resume_);
}

TEST_F(Arguments, help_is_asked_for_even_among_wrong_flags) {
  EXPECT_FALSE(read({"--n-layer", "7", "--help"}));
  EXPECT_FALSE(read({"-h"}));
}

TEST_F(Arguments, an_unknown_flag_names_the_nearest_known) {
  EXPECT_EQ(error({"--lerning-rate", "3"}),
            "--lerning-rate: expected a known flag, found '--lerning-rate'; did you mean "
            "--learning-rate?");
  EXPECT_EQ(error({"--n_layers=3"}),
            "--n_layers: expected a known flag, found '--n_layers'; did you mean --n-layer?");
  EXPECT_THAT(error({"--frobnicate"}), testing::Not(HasSubstr("did you mean")));
  EXPECT_THAT(error({"-z"}), HasSubstr("-z: expected a known flag"));
}

TEST_F(Arguments, a_wrong_value_names_flag_expectation_and_value) {
  EXPECT_EQ(error({"--n-layer", "0"}),
            "--n-layer: expected a whole number from 1 to 100, found '0'");
  EXPECT_EQ(error({"--n-layer", "1e2"}),
            "--n-layer: expected a whole number from 1 to 100, found '1e2'");
  EXPECT_EQ(error({"--learning-rate", "nan"}),
            "--learning-rate: expected a number of at least 0, found 'nan'");
  EXPECT_EQ(error({"--learning-rate", "inf"}),
            "--learning-rate: expected a number of at least 0, found 'inf'");
  EXPECT_EQ(error({"--top-p", "0"}), "--top-p: expected a number above 0 and at most 1, found '0'");
  EXPECT_EQ(error({"--norm", "mid"}), "--norm: expected one of pre|post, found 'mid'");
  EXPECT_EQ(error({"--seed", "-1"}),
            "--seed: expected a whole number from 0 to 2^64 - 1, found '-1'");
  EXPECT_EQ(error({"--bias=maybe"}), "--bias: expected true or false, found 'maybe'");
}

TEST_F(Arguments, a_flag_without_its_value_says_so) {
  EXPECT_EQ(error({"--n-layer"}),
            "--n-layer: expected a whole number from 1 to 100 after it, found the end of the "
            "command line");
}

}  // namespace
}  // namespace prenorm::cli
