#include "prenorm/base/suggest.h"

#include <gtest/gtest.h>

#include <vector>

namespace prenorm {
namespace {

const std::vector<std::string> kKnown = {"learning-rate", "n-layer", "n-head", "n-embd", "no-bias",
                                         "seed",          "temp",    "top-k",  "top-p"};

TEST(Suggest, the_distance_counts_insertions_deletions_changes_and_swaps) {
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("abc", "abc"), 0);
  EXPECT_EQ(edit_distance("train", "trian"), 1);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
}

TEST(Suggest, a_slip_finds_the_name_that_was_meant) {
  EXPECT_EQ(nearest_name("lerning-rate", kKnown), "learning-rate");
  EXPECT_EQ(nearest_name("n-layers", kKnown), "n-layer");
  EXPECT_EQ(nearest_name("sede", kKnown), "seed");
  EXPECT_EQ(nearest_name("temperature", kKnown), "temp");
  EXPECT_EQ(nearest_name("learning", kKnown), "learning-rate");
}

TEST(Suggest, a_word_that_is_like_no_name_finds_none) {
  EXPECT_EQ(nearest_name("verbose", kKnown), "");
  EXPECT_EQ(nearest_name("x", kKnown), "");
  EXPECT_EQ(nearest_name("", kKnown), "");
  EXPECT_EQ(nearest_name(std::string(1000, 'a'), kKnown), "");
}

TEST(Suggest, the_question_names_the_flag_with_its_dashes) {
  EXPECT_EQ(did_you_mean("sed", kKnown, "--"), "; did you mean --seed?");
  EXPECT_EQ(did_you_mean("verbose", kKnown, "--"), "");
}

}  // namespace
}  // namespace prenorm
