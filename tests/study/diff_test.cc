#include "prenorm/study/diff.h"

#include <gtest/gtest.h>

#include <cmath>

#include "prenorm/formats/safetensors.h"
#include "prenorm/model/checkpoint.h"
#include "tests/temporary_folder.h"

namespace prenorm {
namespace {

using Kind = TensorDifference::Kind;

class Diff : public testing::Test {
 protected:
  void write(const char* name, std::vector<Tensor> tensors) {
    save_safetensors(folder_.path() / name, std::move(tensors));
  }
  Difference compare(double tolerance = 0.0) {
    return diff(folder_.path() / "a", folder_.path() / "b", tolerance);
  }
  static Tensor floats(const char* name, const std::vector<float>& values) {
    return tensor(name, {static_cast<Index>(values.size())}, std::span(values));
  }

  TemporaryFolder folder_{"diff"};
  const std::vector<float> values_ = {1, 2, 4}, others_ = {1, 2.5f, 4};
  const std::vector<float> nans_ = {1, NAN, 4}, two_ = {1, 2};
  const std::vector<double> doubles_ = {1, 2, 4};
};

TEST_F(Diff, equal_files_are_the_same_whatever_the_prefix) {
  write("a", {floats("transformer.x", values_), floats("y", nans_)});
  write("b", {floats("x", values_), floats("y", nans_)});
  const Difference found = compare();
  EXPECT_TRUE(found.same());
  EXPECT_EQ(found.compared, 2);
}

TEST_F(Diff, values_differ_by_so_much_and_count_beyond_the_tolerance) {
  write("a", {floats("x", values_)});
  write("b", {floats("x", others_)});
  const Difference found = compare(0.25);
  ASSERT_EQ(found.tensors.size(), 1u);
  EXPECT_EQ(found.tensors[0].kind, Kind::kValues);
  EXPECT_DOUBLE_EQ(found.tensors[0].max_absolute, 0.5);
  EXPECT_DOUBLE_EQ(found.tensors[0].max_relative, 0.2);
  EXPECT_EQ(found.tensors[0].differing, 1);
  EXPECT_TRUE(compare(0.5).same());
}

TEST_F(Diff, missing_tensors_shapes_dtypes_and_nan_are_told) {
  write("a",
        {floats("a", values_), floats("n", values_), floats("s", values_), floats("t", values_)});
  write("b", {floats("b", values_), floats("n", nans_), floats("s", two_),
              tensor("t", {3}, std::span(doubles_))});
  const Difference found = compare();
  ASSERT_EQ(found.tensors.size(), 5u);
  EXPECT_EQ(found.tensors[0].kind, Kind::kOnlyInFirst);
  EXPECT_EQ(found.tensors[1].kind, Kind::kOnlyInSecond);
  EXPECT_EQ(found.tensors[2].kind, Kind::kValues);
  EXPECT_EQ(found.tensors[2].nans_second, 1);
  EXPECT_EQ(found.tensors[2].differing, 1);
  EXPECT_EQ(found.tensors[3].first + found.tensors[3].second, "[3][2]");
  EXPECT_EQ(found.tensors[4].first + found.tensors[4].second, "F32F64");
  EXPECT_EQ(found.tensors[4].differing, 0);
}

TEST_F(Diff, a_tied_head_equals_its_copy_and_an_untied_one_is_told) {
  write("a", {floats("wte.weight", values_)});
  write("b", {floats("wte.weight", values_), floats("lm_head.weight", values_)});
  EXPECT_TRUE(compare().same());
  write("b", {floats("wte.weight", values_), floats("lm_head.weight", others_)});
  const Difference found = compare();
  EXPECT_EQ(found.head, "tied in the first, untied in the second");
  ASSERT_EQ(found.tensors.size(), 1u);
  EXPECT_EQ(found.tensors[0].name, "lm_head.weight");
}

TEST_F(Diff, configs_of_folders_are_compared) {
  GptConfig config;
  config.vocab_size = 7;
  config.block_size = config.n_embd = 4;
  config.n_layer = config.n_head = 1;
  Gpt model(config);
  model.initialize(1);
  save_pretrained(model, folder_.path() / "a");
  config.layer_norm_epsilon = 1e-3;
  Gpt other(config);
  other.initialize(1);
  save_pretrained(other, folder_.path() / "b");
  const Difference found = compare();
  EXPECT_TRUE(found.tensors.empty());
  ASSERT_EQ(found.config.size(), 1u);
  EXPECT_EQ(found.config[0].key, "layer_norm_epsilon");
}

}  // namespace
}  // namespace prenorm
