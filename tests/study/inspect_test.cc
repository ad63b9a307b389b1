#include "prenorm/study/inspect.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "prenorm/base/error.h"
#include "prenorm/formats/safetensors.h"
#include "prenorm/model/checkpoint.h"
#include "prenorm/text/byte_tokenizer.h"
#include "tests/config_of.h"
#include "tests/temporary_folder.h"

namespace prenorm {
namespace {

class Inspect : public testing::Test {
 protected:
  const TemporaryFolder temporary_{"inspect"};
  const std::filesystem::path folder_ = temporary_.path();
};

GptConfig small_config() { return config_of(2, 2, 16, 32, 256); }

TEST_F(Inspect, a_model_folder_has_its_config_and_its_cost) {
  Gpt model(small_config());
  model.initialize(1);
  save_pretrained(model, folder_);
  ByteTokenizer().save(folder_);
  const Inspection found = inspect(folder_);
  EXPECT_EQ(found.parameters, model.parameters().total_size());
  ASSERT_TRUE(found.config && found.cost);
  EXPECT_EQ(found.config->n_layer, 2);
  EXPECT_EQ(found.cost->cache_bytes, 2u * 2 * 32 * 16 * 4);
  EXPECT_EQ(found.tokenizer, "byte");
  EXPECT_TRUE(found.warnings.empty());
}

TEST_F(Inspect, an_untied_head_counts_and_a_tied_one_does_not) {
  GptConfig config = small_config();
  Gpt tied(config);
  config.tie_word_embeddings = false;
  Gpt untied(config);
  save_pretrained(tied, folder_ / "tied");
  save_pretrained(untied, folder_ / "untied");
  EXPECT_EQ(inspect(folder_ / "untied").parameters,
            inspect(folder_ / "tied").parameters + 256 * 16);
}

TEST_F(Inspect, statistics_are_over_finite_numbers_and_the_others_are_counted) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> values = {1, nan, 3, -inf, inf, 5};
  save_safetensors(folder_ / "x.safetensors", {tensor("x", {2, 3}, std::span(values))});
  const Inspection found = inspect(folder_ / "x.safetensors");
  ASSERT_EQ(found.tensors.size(), 1u);
  const TensorSummary& x = found.tensors.front();
  EXPECT_EQ(x.nans, 1);
  EXPECT_EQ(x.infinities, 2);
  EXPECT_EQ(x.minimum, 1);
  EXPECT_EQ(x.maximum, 5);
  EXPECT_EQ(x.mean, 3);
  EXPECT_NEAR(x.deviation, std::sqrt(8.0 / 3), 1e-15);
  ASSERT_EQ(found.warnings.size(), 1u);
  EXPECT_EQ(found.warnings.front(), "'x' holds 1 NaN and 2 infinite numbers");
  EXPECT_FALSE(found.config);
}

TEST_F(Inspect, arithmetic_is_two_operations_an_element_and_token_and_causal_attention) {
  // 2 (2 (12 · 16²) + 256 · 16) · 4 + 2 · 2 · 4² · 16
  EXPECT_EQ(small_config().forward_flops(4), 2.0 * (2 * 12 * 256 + 256 * 16) * 4 + 2 * 2 * 16 * 16);
}

TEST_F(Inspect, what_is_missing_is_an_error) {
  EXPECT_THROW(inspect(folder_ / "nothing"), IoError);
  EXPECT_THROW(inspect(folder_), IoError);
}

}  // namespace
}  // namespace prenorm
