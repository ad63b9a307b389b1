#include "prenorm/study/check_subject.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>

#include "tests/study/check_fixture.h"

namespace prenorm {
namespace {

TEST(Property, it_passes_at_its_bound_and_not_beyond_nor_as_a_nan_nor_where_nothing_was_measured) {
  Property p;
  p.measured = p.bound = 1e-6;
  EXPECT_TRUE(p.passed());
  p.measured = 1.001e-6;
  EXPECT_FALSE(p.passed());
  p.measured = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(p.passed());
  p.measured = 0.0;
  p.vacuous = true;
  EXPECT_FALSE(p.passed());
}

TEST(CheckSubject, one_of_a_thing_has_no_s) {
  EXPECT_EQ(counted(1, "token"), "1 token");
  EXPECT_EQ(counted(0, "token"), "0 tokens");
  EXPECT_EQ(counted(12, "block"), "12 blocks");
}

TEST(CheckSubject, random_tokens_are_of_the_vocabulary_and_a_function_of_the_seed) {
  const auto tokens = random_tokens(500, 7, 3);
  EXPECT_EQ(tokens, random_tokens(500, 7, 3));
  EXPECT_NE(tokens, random_tokens(500, 7, 4));
  EXPECT_EQ(std::set<TokenId>(tokens.begin(), tokens.end()).size(), 7u);
  EXPECT_EQ(*std::ranges::min_element(tokens), 0);
  EXPECT_EQ(*std::ranges::max_element(tokens), 6);
}

TEST(BitDifference, it_tells_zeros_of_two_signs_and_one_unit_in_the_last_place) {
  std::vector<float> a(6, 1.0f), b(6, 1.0f);
  const auto difference = [&] {
    BitDifference d;
    d.compare({a.data(), {2, 3}}, {b.data(), {2, 3}});
    EXPECT_EQ(d.compared(), 6);
    return d.differing();
  };
  EXPECT_EQ(difference(), 0);
  nudge(b[4]);
  EXPECT_EQ(difference(), 1);
  a[0] = 0.0f;
  b[0] = -0.0f;
  EXPECT_EQ(difference(), 2);
  a[1] = b[1] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(difference(), 2);
}

TEST(CheckSeams, they_are_the_models_own_passes_unless_changed) {
  const Runtime run({.threads = 1});
  const auto model = random_model(small_config());
  const std::vector<TokenId> tokens = random_tokens(5, 23, 1);
  std::vector<float> found(5 * 23);
  Gpt::Workspace work = model->make_workspace(1, 5);
  CheckSeams().logits(run, *model, work, {tokens.data(), {1, 5}}, {found.data(), {5, 23}});
  EXPECT_EQ(found, logits_of(run, *model, tokens));
}

}  // namespace
}  // namespace prenorm
