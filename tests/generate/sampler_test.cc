#include "prenorm/generate/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

#include "prenorm/base/error.h"

namespace prenorm {
namespace {

// No penalty, no filter: softmax.
const SamplerOptions kPlain{.temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0};

// Probabilities by id, 0 where a token was filtered out.
std::vector<double> dense(std::span<const float> logits, const SamplerOptions& options,
                          const TokenHistory& history = {}) {
  std::vector<double> probabilities(logits.size());
  for (const auto& [id, p] : token_distribution(logits, history, options)) {
    probabilities[static_cast<std::size_t>(id)] = p;
  }
  return probabilities;
}

std::vector<TokenId> kept(std::span<const float> logits, const SamplerOptions& options) {
  std::vector<TokenId> ids;
  for (const auto& [id, p] : token_distribution(logits, {}, options)) ids.push_back(id);
  return ids;
}

void expect_near(const std::vector<double>& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-12) << i;
}

std::vector<float> logs(const std::vector<double>& probabilities) {
  std::vector<float> logits;
  for (double p : probabilities) logits.push_back(static_cast<float>(std::log(p)));
  return logits;
}

TEST(Sampler, temperature_zero_takes_the_likeliest_whatever_else_is_set) {
  const std::vector<float> logits = {0, 100, 99, -3};
  for (double u : {0.0, 0.3, 0.999}) {
    EXPECT_EQ(sample_token(logits, {}, {.temperature = 0, .top_k = 3, .top_p = 0.1}, u), 1);
  }
}

TEST(Sampler, greedy_takes_the_first_on_ties) {
  EXPECT_EQ(greedy_token(std::vector<float>(16, 3.0f)), 0);
  EXPECT_EQ(greedy_token(std::vector<float>{1, 7, 2, 7}), 1);
  EXPECT_EQ(sample_token(std::vector<float>{-1, -1}, {}, {.temperature = 0}, 0.9), 0);
}

TEST(Sampler, a_k_of_all_tokens_or_more_or_zero_filters_nothing) {
  const std::vector<float> logits = {1, 2, 3, 4};
  const std::vector<double> softmax = {0.03205860328008499, 0.08714431874203257,
                                       0.23688281808991013, 0.6439142598879724};
  for (Index k : {0, 4, 1000}) {
    SamplerOptions options = kPlain;
    options.top_k = k;
    expect_near(dense(logits, options), softmax);
  }
}

TEST(Sampler, top_k_keeps_what_ties_with_the_kth) {
  const std::vector<float> logits = {2, 5, 5, 1};
  SamplerOptions options = kPlain;
  options.top_k = 1;
  expect_near(dense(logits, options), {0, 0.5, 0.5, 0});
  options.top_k = 2;
  expect_near(dense(logits, options), {0, 0.5, 0.5, 0});
  options.top_k = 3;
  expect_near(dense(logits, options),
              {0.024288897679263212, 0.4878555511603685, 0.4878555511603685, 0});
}

TEST(Sampler, the_token_that_crosses_p_belongs_to_the_nucleus) {
  const auto nucleus = [](const std::vector<double>& probabilities, double p) {
    SamplerOptions options = kPlain;
    options.top_p = p;
    return kept(logs(probabilities), options);
  };
  EXPECT_EQ(nucleus({0.4, 0.3, 0.2, 0.1}, 0.8), (std::vector<TokenId>{0, 1, 2}));
  EXPECT_EQ(nucleus({0.5, 0.41, 0.09}, 0.9), (std::vector<TokenId>{0, 1}));
  EXPECT_EQ(nucleus({0.5, 0.35, 0.1, 0.05}, 0.9), (std::vector<TokenId>{0, 1, 2}));
  EXPECT_EQ(nucleus({0.05, 0.15, 0.3, 0.5}, 0.6), (std::vector<TokenId>{2, 3}));
  EXPECT_EQ(nucleus({0.1, 0.8, 0.1}, 1e-9), (std::vector<TokenId>{1}));
}

TEST(Sampler, min_p_keeps_what_is_likely_enough_beside_the_likeliest) {
  SamplerOptions options = kPlain;
  options.min_p = 0.3;
  EXPECT_EQ(kept(logs({0.5, 0.2, 0.14, 0.16}), options), (std::vector<TokenId>{0, 1, 3}));
  options.min_p = 1.0;
  EXPECT_EQ(kept(logs({0.2, 0.6, 0.2}), options), (std::vector<TokenId>{1}));
}

TEST(Sampler, filters_come_after_the_temperature_and_each_sees_what_the_last_left) {
  // Of softmax([3, 2, 1, 0] / 2): top-k 3 leaves 0.506, 0.307, 0.186; top-p 0.7 the first two.
  const std::vector<float> logits = {3, 2, 1, 0};
  SamplerOptions options = kPlain;
  options.temperature = 2.0;
  options.top_k = 3;
  options.top_p = 0.7;
  const double a = std::exp(0.5);
  expect_near(dense(logits, options), {a / (1 + a), 1 / (1 + a), 0, 0});
  options.top_k = 0;  // of all four the first two have 0.723 of the probability
  EXPECT_EQ(kept(logits, options), (std::vector<TokenId>{0, 1}));
  options.top_p = 0.75;
  EXPECT_EQ(kept(logits, options), (std::vector<TokenId>{0, 1, 2}));
  options.top_k = 3;
  EXPECT_EQ(kept(logits, options), (std::vector<TokenId>{0, 1}));
}

TEST(Sampler, a_repeat_penalty_makes_seen_tokens_less_likely_whatever_their_sign) {
  const std::vector<float> logits = {2.0f, -2.0f, 1.0f, -0.5f, 0.0f};
  const std::vector<TokenId> prompt = {0, 1, 1}, generated = {4, 0};
  SamplerOptions options = kPlain;
  options.repeat_penalty = 1.5;
  const std::vector<double> found = dense(logits, options, {prompt, generated});
  const std::vector<double> penalised = {2.0 / 1.5, -3.0, 1.0, -0.5, 0.0};
  double total = 0.0;
  for (double logit : penalised) total += std::exp(logit);
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i], std::exp(penalised[i]) / total, 1e-12) << i;
  }
}

// What transformers' processors and warpers give in float64, in their order.
TEST(Sampler, penalized_logits_are_the_logits_themselves_where_nothing_is_penalised) {
  const std::vector<float> logits = {2.0f, -2.0f, 1.0f, -0.5f, 0.0f};
  SamplerOptions options;
  const std::vector<TokenId> seen = {0, 1, 4, 9};  // 9 has no logit
  EXPECT_EQ(penalized_logits(logits, {seen, {}}, options),
            (std::vector<double>{2.0, -2.0, 1.0, -0.5, 0.0}));
  options.repeat_penalty = 2.0;
  EXPECT_EQ(penalized_logits(logits, {seen, {}}, options),
            (std::vector<double>{1.0, -4.0, 1.0, -0.5, 0.0}));
  options = {.frequency_penalty = 0.5, .presence_penalty = 1.0};
  EXPECT_EQ(penalized_logits(logits, {{}, seen}, options),
            (std::vector<double>{0.5, -3.5, 1.0, -0.5, -1.5}));
}

TEST(Sampler, penalties_and_filters_together_are_those_of_transformers) {
  const std::vector<float> logits = {2.5f, -1.25f, 0.75f, 3.0f, 1.5f,
                                     2.0f, -0.5f,  0.25f, 1.0f, 2.25f};
  const std::vector<TokenId> prompt = {3, 1}, generated = {8, 3};
  const auto with = [&](double penalty, double temperature, Index k, double p, double min_p) {
    return dense(logits,
                 {.temperature = temperature,
                  .top_k = k,
                  .top_p = p,
                  .min_p = min_p,
                  .repeat_penalty = penalty},
                 {prompt, generated});
  };
  expect_near(with(1.3, 0.8, 6, 0.9, 0.1),
              {0.29942744462656173, 0, 0, 0.23544739620338742, 0.08578739919709889,
               0.16027196174860428, 0, 0, 0, 0.2190657982243477});
  expect_near(with(1.0, 0.7, 5, 0.95, 0.05),
              {0.22363398362278517, 0, 0, 0.4568231921777182, 0.05359411595880357,
               0.10947815147603072, 0, 0, 0, 0.15647055676466243});
  expect_near(with(1.5, 1.5, 0, 0.6, 0.0), {0.3049204079853459, 0, 0, 0.2184850195544344, 0,
                                            0.2184850195544344, 0, 0, 0, 0.25810955290578536});
  expect_near(with(1.2, 1.0, 0, 1.0, 0.35),
              {0.2664385324775856, 0, 0, 0.2664385324775856, 0.09801725843439338,
               0.16160313887649588, 0, 0, 0, 0.2075025377339396});
}

TEST(Sampler, frequency_and_presence_count_generated_tokens_only) {
  const std::vector<float> logits = {0, 0, 0};
  const std::vector<TokenId> prompt = {0, 0}, generated = {1, 1};
  SamplerOptions options = kPlain;
  options.frequency_penalty = 0.5;
  options.presence_penalty = 0.25;
  const double a = std::exp(-1.25);
  expect_near(dense(logits, options, {prompt, generated}), {1 / (2 + a), a / (2 + a), 1 / (2 + a)});
}

TEST(Sampler, a_masked_token_is_never_taken) {
  const float out = -std::numeric_limits<float>::infinity();
  const std::vector<float> logits = {out, 1, out};
  for (double u : {0.0, 0.5, 0.9999999}) EXPECT_EQ(sample_token(logits, {}, kPlain, u), 1);
  EXPECT_THROW(greedy_token(std::vector<float>{out, out}), NumericalError);
}

TEST(Sampler, logits_that_are_no_numbers_are_a_numerical_error) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THROW(sample_token(std::vector<float>{0, nan}, {}, kPlain, 0.5), NumericalError);
  EXPECT_THROW(greedy_token(std::vector<float>{0, -nan}), NumericalError);
  EXPECT_THROW(greedy_token(std::vector<float>{0, std::numeric_limits<float>::infinity()}),
               NumericalError);
}

TEST(Sampler, extreme_temperatures_stay_finite) {
  const std::vector<float> logits = {3e38f, -3e38f, 2e38f};
  SamplerOptions options = kPlain;
  options.temperature = 1e-300;
  expect_near(dense(logits, options), {1, 0, 0});
  options.temperature = 1e300;
  expect_near(dense(logits, options), {1.0 / 3, 1.0 / 3, 1.0 / 3});
}

TEST(Sampler, tokens_come_as_often_as_they_are_likely) {
  const std::vector<float> logits = logs({0.5, 0.2, 0.3});
  std::vector<int> counts(3);
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) {
    const double u = sampling_number({.seed = 7}, i);
    ++counts[static_cast<std::size_t>(sample_token(logits, {}, kPlain, u))];
  }
  // Four standard deviations of a binomial count are at most 283.
  EXPECT_NEAR(counts[0], 0.5 * kDraws, 283);
  EXPECT_NEAR(counts[1], 0.2 * kDraws, 283);
  EXPECT_NEAR(counts[2], 0.3 * kDraws, 283);
}

TEST(Sampler, seed_prompt_sample_and_position_each_change_the_random_number) {
  const double base = sampling_number({1, 2, 3}, 4);
  EXPECT_EQ(base, sampling_number({1, 2, 3}, 4));
  EXPECT_NE(base, sampling_number({2, 2, 3}, 4));
  EXPECT_NE(base, sampling_number({1, 3, 3}, 4));
  EXPECT_NE(base, sampling_number({1, 2, 4}, 4));
  EXPECT_NE(base, sampling_number({1, 2, 3}, 5));
}

TEST(Sampler, a_log_probability_is_that_of_the_softmax) {
  const std::vector<float> logits = {1, 2, 3, 4};
  EXPECT_NEAR(token_logprob(logits, 3), std::log(0.6439142598879724), 1e-15);
  EXPECT_NEAR(token_logprob(std::vector<float>{1000, 0}, 1), -1000, 1e-12);
}

TEST(Sampler, options_out_of_range_are_named) {
  for (const SamplerOptions& options :
       {SamplerOptions{.temperature = -1}, SamplerOptions{.temperature = NAN},
        SamplerOptions{.top_k = -1}, SamplerOptions{.top_p = 0}, SamplerOptions{.min_p = 1.5},
        SamplerOptions{.repeat_penalty = 0}}) {
    EXPECT_THROW(options.validate(), ConfigError);
  }
}

// The public reports' inputs, where they lie beside the project.
TEST(Sampler, public_cases_come_out_as_they_should) {
  std::ifstream file(PRENORM_SOURCE_DIR "/../shared/cases/cases.jsonl");
  if (!file) GTEST_SKIP() << "no shared cases beside the project";
  int checked = 0;
  for (std::string line; std::getline(file, line);) {
    const auto row = nlohmann::json::parse(line);
    const auto& input = row["input"];
    const auto& expected = row["expected"];
    const std::string id = row["id"], op = input.is_object() ? input.value("op", "") : "";
    if (op == "argmax") {
      for (std::size_t i = 0; i < input["cases"].size(); ++i, ++checked) {
        EXPECT_EQ(greedy_token(input["cases"][i].get<std::vector<float>>()), expected["ids"][i])
            << id;
      }
    } else if (op == "top_p_set") {
      for (std::size_t i = 0; i < input["cases"].size(); ++i, ++checked) {
        SamplerOptions options = kPlain;
        options.top_p = input["cases"][i]["p"];
        EXPECT_EQ(kept(logs(input["cases"][i]["probs"]), options),
                  expected["kept"][i].get<std::vector<TokenId>>())
            << id;
      }
    } else if (op == "sample_probs" && expected.contains("probs")) {
      SamplerOptions options = kPlain;
      options.top_k = input["top_k"][0];
      expect_near(dense(input["logits"].get<std::vector<float>>(), options), expected["probs"]);
      ++checked;
    } else if (op == "sample" && input["temperature"] == 0) {
      EXPECT_EQ(
          sample_token(input["logits"].get<std::vector<float>>(), {}, {.temperature = 0}, 0.7),
          expected["id"])
          << id;
      ++checked;
    }
  }
  EXPECT_GE(checked, 9);
}

}  // namespace
}  // namespace prenorm
