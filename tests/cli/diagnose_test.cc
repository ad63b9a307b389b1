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

TEST_F(DiagnoseVerb, the_verdict_comes_first_and_the_page_is_written) {
  const Ran ran = run(arguments({"--html", "report.html"}));
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, testing::StartsWith("no mistake found: equal within float32 rounding"));
  EXPECT_THAT(slurp(scratch_ / "report.html"), HasSubstr("no mistake found"));
}

TEST_F(DiagnoseVerb, the_probe_is_a_model_that_explains_itself) {
  EXPECT_EQ(run({"diagnose", "--emit-probe", "probe"}).code, 0);
  const Ran ran = run({"apply", "gpt", "--params", "probe", "--input", "probe/input.safetensors",
                       "--output", "logits.safetensors"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  const auto found = json({"diagnose", "-m", "probe", "--input", "probe/input.safetensors",
                           "--theirs", "logits.safetensors", "--json"});
  EXPECT_EQ(found["status"], "equal");
}

TEST_F(DiagnoseVerb, the_hook_is_printed_for_pytorch) {
  const Ran ran = run({"diagnose", "--emit-hook"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_THAT(ran.out, HasSubstr("register_forward_hook"));
}

TEST_F(DiagnoseVerb, a_block_alone_is_compared_by_its_output) {
  const std::vector<float> input = [] {
    std::vector<float> x(4 * 16);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>((i * 37) % 19) - 9.0f;
    return x;
  }();
  std::vector<Tensor> tensors = {tensor("input", {1, 4, 16}, std::span(input))};
  save_safetensors(scratch_ / "x.safetensors", std::move(tensors));
  std::vector<Tensor> block;
  std::vector<std::vector<float>> values;
  values.reserve(12);
  const auto add = [&](const char* name, std::vector<Index> shape) {
    Index size = 1;
    for (const Index d : shape) size *= d;
    std::vector<float>& v = values.emplace_back(static_cast<std::size_t>(size));
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>((i * 29) % 23) / 40 - 0.2f;
    block.push_back(tensor(name, std::move(shape), std::span<const float>(v)));
  };
  for (const char* norm : {"ln_1", "ln_2"}) {
    add((std::string(norm) + ".weight").c_str(), {16});
    add((std::string(norm) + ".bias").c_str(), {16});
  }
  add("attn.c_attn.weight", {16, 48});
  add("attn.c_attn.bias", {48});
  add("attn.c_proj.weight", {16, 16});
  add("attn.c_proj.bias", {16});
  add("mlp.c_fc.weight", {16, 64});
  add("mlp.c_fc.bias", {64});
  add("mlp.c_proj.weight", {64, 16});
  add("mlp.c_proj.bias", {16});
  save_safetensors(scratch_ / "block.safetensors", std::move(block));
  const Ran applied = run({"apply", "block", "--params", "block.safetensors", "--heads", "2",
                           "--input", "x.safetensors", "--output", "y.safetensors"});
  EXPECT_EQ(applied.code, 0) << applied.err;
  const std::vector<std::string> ask = {
      "diagnose", "--params",      "block.safetensors", "--heads",       "2",
      "--input",  "x.safetensors", "--theirs",          "y.safetensors", "--json"};
  EXPECT_EQ(json(ask)["status"], "equal");
  std::vector<std::string> other = ask;
  other.insert(other.end(), {"--activation", "relu"});
  const auto found = nlohmann::json::parse(run(other).out);
  ASSERT_EQ(found["mistakes"].size(), 1u);
  EXPECT_EQ(found["mistakes"][0]["name"], "activation.gelu-tanh");
  EXPECT_TRUE(found["first_divergence"].is_null());
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
