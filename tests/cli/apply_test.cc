#include "prenorm/cli/apply.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "prenorm/formats/tensor_file.h"
#include "tests/cli/run_fixture.h"
#include "tests/memory_file.h"

namespace prenorm::cli {
namespace {

using testing::HasSubstr;

class ApplyVerb : public testing::Test {
 protected:
  ApplyVerb() {
    save("P.safetensors", MemoryFile().ramp("weight", {4}).ramp("bias", {4}));
    save("X.safetensors", MemoryFile().ramp("input", {3, 4}).ramp("grad_output", {3, 4}));
  }
  void save(const std::string& name, const MemoryFile& tensors) const {
    save_safetensors(scratch_ / name, tensors.file().tensors());
  }
  Ran apply(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "apply");
    return run_program(scratch_, arguments);
  }
  // With the files above, and other flags.
  Ran layer_norm(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments = {"layer-norm",    "--params", "P.safetensors", "--input",
                                          "X.safetensors", "--output", "Y.safetensors"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return apply(arguments);
  }
  Scratch scratch_;
};

TEST_F(ApplyVerb, writes_the_output_and_the_gradients_and_lists_them) {
  const Ran ran = layer_norm();
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.out,
            "output       F32  [3, 4]\ngrad.input   F32  [3, 4]\ngrad.bias    F32  [4]\n"
            "grad.weight  F32  [4]\n");
  const TensorFile y = read_tensors(scratch_ / "Y.safetensors");
  ASSERT_NE(y.find("grad.bias"), nullptr);
  // dβ is the column's sum of grad_output.
  EXPECT_EQ(y.doubles(*y.find("grad.bias"))[0], -1.0 + -0.5 + 0.0);

  const Ran listed = layer_norm({"--reference", "--json"});
  const auto json = nlohmann::json::parse(listed.out);
  EXPECT_EQ(json["output"], "Y.safetensors");
  EXPECT_EQ(json["tensors"][0]["dtype"], "F64");
  EXPECT_EQ(json["tensors"][0]["shape"], (std::vector<int>{3, 4}));
}

TEST_F(ApplyVerb, the_same_bits_for_every_thread_count_and_instruction_set) {
  ASSERT_EQ(layer_norm({"--threads", "1"}).code, 0);
  const std::string expected = slurp(scratch_ / "Y.safetensors");
  ASSERT_EQ(layer_norm({"--threads", "3"}).code, 0);
  EXPECT_EQ(slurp(scratch_ / "Y.safetensors"), expected);
}

TEST_F(ApplyVerb, usage_is_exit_code_two) {
  expect_error(apply({}), 2, "layer: expected one layer's name, found 0");
  expect_error(apply({"layernorm"}), 2, "layer: expected one of layer-norm, feed-forward");
  expect_error(apply({"layer-norm"}), 2, "--input: expected a safetensors or npz file, found none");
  expect_error(apply({"layer-norm", "--input", "X.safetensors"}), 2, "--output: expected");
  expect_error(layer_norm({"--output", "Y.npz"}), 2, "--output: expected a safetensors file");
  expect_error(layer_norm({"--norm", "both"}), 2, "--norm: expected one of pre|post");
  expect_error(apply({"attention", "--params", "P.safetensors", "--input", "X.safetensors",
                      "--output", "Y"}),
               3, "P.safetensors: tensor 'weight': expected names of attention parameters");
  expect_error(apply({"linear", "--input", "X.safetensors", "--output", "Y"}), 2, "--params: exp");
}

TEST_F(ApplyVerb, bad_input_is_exit_code_three_and_writes_nothing) {
  const auto expect_refused = [&](const MemoryFile& x, const std::string& message) {
    save("X.safetensors", x);
    expect_error(layer_norm(), 3, message);
    EXPECT_FALSE(std::filesystem::exists(scratch_ / "Y.safetensors"));
  };
  expect_refused(MemoryFile().ramp("inputs", {3, 4}), "X.safetensors: tensor 'inputs': expected");
  expect_refused(MemoryFile().ramp("input", {3, 5}),
                 "X.safetensors: tensor 'input': expected [.., 4], as the weight, found [3, 5]");
  spill(scratch_ / "X.safetensors", "");
  expect_error(layer_norm(), 3, "X.safetensors: expected a safetensors file");
  spill(scratch_ / "X.safetensors", "PK\x03\x04 and more");
  expect_error(layer_norm(), 3, "X.safetensors: expected a zip archive");
  expect_error(layer_norm({"--input", "none"}), 3, "none: expected");
  save("X.safetensors", MemoryFile().ramp("input", {3, 4}));
  expect_error(layer_norm({"--params", "none"}), 3, "none: expected");
}

using ApplyModelVerb = RunFixture;

TEST_F(ApplyModelVerb, applies_the_model_of_a_run_whose_options_flags_may_repeat) {
  save_safetensors(scratch_ / "X.safetensors", MemoryFile()
                                                   .integers("input_ids", {1, 3}, {1, 2, 3})
                                                   .integers("targets", {1, 3}, {2, 3, 4})
                                                   .file()
                                                   .tensors());
  const std::vector<std::string> flags = {"apply",    "gpt",           "--params",
                                          "run",      "--input",       "X.safetensors",
                                          "--output", "Y.safetensors", "--heads"};
  const auto with_heads = [&](const std::string& heads) {
    std::vector<std::string> all = flags;
    all.push_back(heads);
    return run(all);
  };
  const Ran ran = with_heads("2");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("logits"));
  EXPECT_THAT(ran.out, HasSubstr("grad.transformer.h.0.attn.c_attn.weight"));
  expect_error(with_heads("4"), 2, "--heads: expected 2, as the model's config.json says");
}

}  // namespace
}  // namespace prenorm::cli
