#include "prenorm/model/gpt_config.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "prenorm/base/error.h"
#include "prenorm/model/gpt.h"

namespace prenorm {
namespace {

using testing::HasSubstr;
using testing::StrEq;
using testing::ThrowsMessage;

template <typename T>
GptConfig with(T GptConfig::*field, T value) {
  GptConfig config;
  config.*field = value;
  return config;
}
template <typename T>
void expect_refused(T GptConfig::*field, T value, const std::string& text) {
  EXPECT_THAT([&] { with(field, value).validate(); }, ThrowsMessage<ConfigError>(StrEq(text)));
}

TEST(GptConfig, defaults_are_gpt2_and_valid) {
  const GptConfig c;
  EXPECT_NO_THROW(c.validate());
  EXPECT_EQ(c.vocab_size, 50257);
  EXPECT_EQ(c.block_size, 1024);
  EXPECT_EQ(c.n_layer, 12);
  EXPECT_EQ(c.n_head, 12);
  EXPECT_EQ(c.n_embd, 768);
  EXPECT_EQ(c.norm, NormPlacement::kPre);
  EXPECT_EQ(c.activation, Activation::kGeluTanh);
  EXPECT_EQ(c.layer_norm_epsilon, 1e-5);
  EXPECT_EQ(c.initializer_range, 0.02);
  EXPECT_TRUE(c.bias);
  EXPECT_TRUE(c.tie_word_embeddings);
}

TEST(GptConfig, the_feed_forward_width_is_four_times_the_models_unless_given) {
  EXPECT_EQ(GptConfig().feed_forward_width(), 3072);
  EXPECT_EQ(with(&GptConfig::n_inner, Index{100}).feed_forward_width(), 100);
}

TEST(GptConfig, refuses_heads_that_do_not_divide_the_width) {
  expect_refused(&GptConfig::n_head, Index{7},
                 "n_head: expected a number of heads that divides n_embd = 768, found 7");
  expect_refused(&GptConfig::n_embd, Index{6},
                 "n_head: expected a number of heads that divides n_embd = 6, found 12");
  EXPECT_THROW(Gpt(with(&GptConfig::n_head, Index{7})), ConfigError);
}

TEST(GptConfig, refuses_sizes_of_zero_below_it_and_beyond_31_bits) {
  const std::pair<const char*, Index GptConfig::*> sizes[] = {
      {"vocab_size", &GptConfig::vocab_size},
      {"block_size", &GptConfig::block_size},
      {"n_layer", &GptConfig::n_layer},
      {"n_head", &GptConfig::n_head},
      {"n_embd", &GptConfig::n_embd}};
  for (const auto& [name, field] : sizes) {
    for (Index value : {Index{0}, Index{-5}, Index{1} << 31, std::numeric_limits<Index>::max()}) {
      expect_refused(field, value,
                     std::string(name) + ": expected a whole number from 1 to 2147483647, found " +
                         std::to_string(value));
    }
  }
  expect_refused(&GptConfig::n_inner, Index{-1},
                 "n_inner: expected a whole number from 0 to 2147483647, found -1");
}

TEST(GptConfig, refuses_rates_outside_0_to_1) {
  const std::pair<const char*, double GptConfig::*> rates[] = {
      {"embd_pdrop", &GptConfig::embd_pdrop},
      {"attn_pdrop", &GptConfig::attn_pdrop},
      {"resid_pdrop", &GptConfig::resid_pdrop}};
  for (const auto& [name, field] : rates) {
    for (const auto& [value, text] :
         {std::pair{1.0, "1"}, {-0.5, "-0.5"}, {1.5, "1.5"}, {std::nan(""), "nan"}}) {
      expect_refused(field, value,
                     std::string(name) + ": expected a probability in [0, 1), found " + text);
    }
    EXPECT_NO_THROW(with(field, 0.999).validate());
  }
}

TEST(GptConfig, refuses_an_epsilon_or_a_range_that_is_not_positive_and_finite) {
  const std::pair<const char*, double GptConfig::*> numbers[] = {
      {"layer_norm_epsilon", &GptConfig::layer_norm_epsilon},
      {"initializer_range", &GptConfig::initializer_range}};
  for (const auto& [name, field] : numbers) {
    for (const auto& [value, text] :
         {std::pair{0.0, "0"}, {-1e-5, "-1e-05"}, {std::nan(""), "nan"}, {HUGE_VAL, "inf"}}) {
      expect_refused(field, value,
                     std::string(name) + ": expected a positive number, found " + text);
    }
  }
}

TEST(GptConfig, attention_scores_are_scaled_by_the_root_of_the_head_width_unless_said_otherwise) {
  GptConfig c;
  c.n_embd = 64;
  c.n_head = 4;
  EXPECT_EQ(c.attention_scale(3), 0.25);
  c.scale_attn_by_inverse_layer_idx = true;
  EXPECT_EQ(c.attention_scale(0), 0.25);
  EXPECT_EQ(c.attention_scale(3), 0.0625);
  c.scale_attn_weights = false;
  EXPECT_EQ(c.attention_scale(3), 0.25);
}

TEST(GptConfig, refuses_a_model_that_no_memory_can_hold) {
  const Index most = std::numeric_limits<std::int32_t>::max();
  GptConfig huge;
  huge.n_embd = huge.n_layer = huge.vocab_size = huge.n_inner = most;
  huge.n_head = 1;
  EXPECT_THAT([&] { huge.validate(); },
              ThrowsMessage<ConfigError>(HasSubstr("expected a model that memory can hold")));
}

}  // namespace
}  // namespace prenorm
