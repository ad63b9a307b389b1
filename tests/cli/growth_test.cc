#include "prenorm/cli/growth.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/run_fixture.h"

namespace prenorm::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

using GrowthVerb = RunFixture;

std::vector<std::string> small(const std::vector<std::string>& more) {
  std::vector<std::string> words = {"growth",   "--n-layer", "4",         "--n-embd", "16",
                                    "--n-head", "2",         "--threads", "1"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST_F(GrowthVerb, the_lesson_needs_nothing_and_is_the_same_each_time) {
  const Ran ran = run({"growth"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("no norm"));
  EXPECT_THAT(ran.out, HasSubstr("MODELS AT INITIALISATION"));
  EXPECT_THAT(ran.out, Not(HasSubstr("TRAINING")));
  EXPECT_EQ(run({"growth", "--threads", "3"}).out, ran.out);
  EXPECT_NE(run({"growth", "--seed", "2"}).out, ran.out);
}

TEST_F(GrowthVerb, json_holds_the_curves_of_stacks_and_models) {
  const auto result = json(small({"--json", "--gain", "2"}));
  ASSERT_EQ(result["stacks"].size(), 4u);
  EXPECT_EQ(result["stacks"][0]["forward"].size(), 5u);
  EXPECT_NEAR(result["stacks"][0]["forward"][3].get<double>(), 8.0, 3.0);
  ASSERT_EQ(result["initialisation"].size(), 3u);
  EXPECT_EQ(result["initialisation"][0]["parameters"].size(), 4u);
  EXPECT_TRUE(result["checkpoint"].is_null());
  EXPECT_FALSE(result.contains("training"));
}

TEST_F(GrowthVerb, a_model_is_measured_on_real_text_and_the_page_is_written) {
  const auto result =
      json(small({"-m", "run", "--data", "text.txt", "--html", "page.html", "--json"}));
  EXPECT_EQ(result["checkpoint"]["forward"].size(), 2u);  // the fixture's one layer
  EXPECT_EQ(result["checkpoint"]["name"], "run");
  EXPECT_EQ(result["tokens"], "text.txt");
  EXPECT_TRUE(result["initialisation"].empty());
  EXPECT_THAT(slurp(scratch_ / "page.html"), HasSubstr("<svg"));
}

TEST_F(GrowthVerb, training_is_measured_side_by_side) {
  const auto flags = small({"--train", "--train-layers", "1", "--train-layers", "2", "--max-iters",
                            "12", "--block-size", "8", "--json"});
  const auto result = json(flags);
  const auto& runs = result["training"]["runs"];
  ASSERT_EQ(runs.size(), 4u);
  EXPECT_EQ(runs[1]["norm"], "post");
  EXPECT_EQ(runs[2]["layers"], 2);
  EXPECT_EQ(runs[2]["losses"].size(), 12u);
  EXPECT_EQ(result["training"]["interrupted"], false);
  EXPECT_EQ(json(flags)["training"]["runs"][3]["losses"], runs[3]["losses"]);
  EXPECT_THAT(run(small({"--train", "--max-iters", "2", "text.txt"})).out,
              HasSubstr("24 layers, post-norm"));
}

TEST_F(GrowthVerb, an_interrupted_training_shows_what_was_measured) {
  Running running(scratch_, small({"--train", "--max-iters", "1000000", "--json"}));
  EXPECT_TRUE(running.wait_for("train 1/4"));
  running.send(SIGINT);
  const Ran ran = running.finish();
  EXPECT_EQ(ran.code, 130);
  const auto result = nlohmann::json::parse(ran.out);
  EXPECT_EQ(result["training"]["interrupted"], true);
  EXPECT_GT(result["training"]["runs"][0]["losses"].size(), 0u);
}

TEST_F(GrowthVerb, flags_that_do_not_fit_are_told) {
  expect_error(run({"growth", "-m", "run"}), 2, "--data: expected a text");
  expect_error(run({"growth", "-m", "run", "--train", "-"}), 2, "--data: expected files");
  expect_error(run({"growth", "--n-head", "7"}), 2, "n_head: expected");
  expect_error(run({"growth", "--train-layers", "6"}), 2, "--train-layers: expected --train");
  expect_error(run({"growth", "--train", "--train-layers", "x"}), 2,
               "--train-layers: expected whole numbers");
  expect_error(run({"growth", "--gain", "0"}), 2, "--gain: expected");
  expect_error(run({"growth", "nowhere.txt"}), 3, "nowhere.txt: expected");
  spill(scratch_ / "empty", "");
  expect_error(run({"growth", "empty"}), 3, "empty: expected");
  spill(scratch_ / "one", "a");
  expect_error(run({"growth", "one"}), 3, "one: expected at least 2 tokens, found 1");
  EXPECT_EQ(run(small({"--html", "no/such/folder/x.html"})).code, 3);
  damage_weights();
  expect_error(run({"growth", "-m", "run", "text.txt"}), 4, "run: expected finite weights");
}

}  // namespace
}  // namespace prenorm::cli
