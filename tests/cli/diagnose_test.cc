#include "prenorm/cli/diagnose.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "prenorm/formats/safetensors.h"
#include "prenorm/formats/tensor_file.h"
#include "tests/cli/run_fixture.h"

namespace prenorm::cli {
namespace {

using testing::HasSubstr;

class DiagnoseVerb : public RunFixture {
 protected:
  DiagnoseVerb() {
    const std::vector<std::int64_t> ids = {1, 2, 3, 4, 5, 6, 7, 0};
    std::vector<Tensor> input = {tensor("input_ids", {1, 8}, std::span(ids))};
    save_safetensors(scratch_ / "x.safetensors", std::move(input));
    const Ran ran = run({"apply", "gpt", "--params", "run", "--input", "x.safetensors", "--output",
                         "theirs.safetensors"});
    EXPECT_EQ(ran.code, 0) << ran.err;
  }
  std::vector<std::string> arguments(std::vector<std::string> more = {}) {
    std::vector<std::string> all = {
        "diagnose", "-m", "run", "--input", "x.safetensors", "--theirs", "theirs.safetensors"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
};

TEST_F(DiagnoseVerb, our_own_logits_are_equal_and_the_exit_code_says_so) {
  const Ran ran = run(arguments({"--json"}));
  EXPECT_EQ(ran.code, 0) << ran.err;
  const auto found = nlohmann::json::parse(ran.out);
  EXPECT_EQ(found["status"], "equal");
  EXPECT_EQ(found["mistakes"].size(), 0u);
  EXPECT_TRUE(found["first_divergence"].is_null());
}

TEST_F(DiagnoseVerb, a_model_of_another_activation_is_named) {
  std::string config = slurp(scratch_ / "run/config.json");
  const std::size_t at = config.find("\"gelu_new\"");
  ASSERT_NE(at, std::string::npos);
  spill(scratch_ / "run/config.json", config.replace(at, 10, "\"relu\""));
  const Ran ran = run(arguments({"--json"}));
  EXPECT_EQ(ran.code, 1) << ran.err;
  const auto found = nlohmann::json::parse(ran.out);
  EXPECT_EQ(found["status"], "named");
  ASSERT_EQ(found["mistakes"].size(), 1u);
  EXPECT_EQ(found["mistakes"][0]["name"], "activation.gelu-tanh");
  EXPECT_EQ(found["mistakes"][0]["where"], "everywhere");
  EXPECT_TRUE(found["mistakes"][0]["value"].is_null());
  EXPECT_GT(found["mistakes"][0]["margin"], 2.0);
}

TEST_F(DiagnoseVerb, what_is_missing_or_wrong_is_told_in_one_line) {
  expect_error(run({"diagnose"}), 2, "-m: expected a model folder, or --params, found neither");
  expect_error(run({"diagnose", "-m", "run"}), 2, "--input: expected");
  expect_error(run({"diagnose", "-m", "run", "--input", "x.safetensors"}), 2, "--theirs: expected");
  expect_error(
      run({"diagnose", "-m", "none", "--input", "x.safetensors", "--theirs", "theirs.safetensors"}),
      3, "none");
  spill(scratch_ / "theirs.safetensors", "");
  expect_error(run(arguments()), 3, "theirs.safetensors");
}

}  // namespace
}  // namespace prenorm::cli
