#include "prenorm/generate/generator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "prenorm/base/error.h"
#include "tests/config_of.h"

namespace prenorm {
namespace {

GptConfig small_config() {
  GptConfig config = config_of(2, 2, 16, 8, 23);
  config.initializer_range = 0.3;  // so that what came before changes the likeliest token
  return config;
}

class Generator : public testing::Test {
 protected:
  Generator() : run_({.threads = 1}), model_(small_config(), Gpt::Mode::kInference) {
    model_.initialize(3);
  }

  GenerateOptions greedy(Index tokens) const {
    GenerateOptions options;
    options.sampler.temperature = 0;
    options.max_new_tokens = tokens;
    options.logprobs = true;
    return options;
  }
  Generation one(const std::vector<TokenId>& prompt, const GenerateOptions& options,
                 const GenerateCallbacks& callbacks = {}) const {
    const GenerateRequest request{prompt, {.seed = 1}};
    return generate(run_, model_, {&request, 1}, options, callbacks).front();
  }
  // The next token after `tokens`, from the whole window at once and without a cache.
  std::vector<float> logits_without_cache(std::vector<TokenId> tokens) const {
    const auto context = static_cast<std::size_t>(model_.config().block_size);
    if (tokens.size() > context) tokens.erase(tokens.begin(), tokens.end() - 8);
    const auto time = static_cast<Index>(tokens.size());
    std::vector<float> logits(tokens.size() * 23);
    Gpt::Workspace work = model_.make_workspace(1, time);
    model_.logits(run_, work, TokenMatrix(tokens.data(), {1, time}),
                  Matrix(logits.data(), {time, 23}));
    return {logits.end() - 23, logits.end()};
  }

  Runtime run_;
  Gpt model_;
};

TEST_F(Generator, tokens_and_log_probabilities_with_the_cache_are_those_without_it) {
  std::vector<TokenId> tokens = {5, 1, 9};
  const Generation made = one(tokens, greedy(20));  // far beyond the context of 8
  ASSERT_EQ(made.ids.size(), 20u);
  for (std::size_t i = 0; i < made.ids.size(); ++i) {
    const auto logits = logits_without_cache(tokens);
    EXPECT_EQ(made.ids[i], greedy_token(logits)) << i;
    EXPECT_EQ(made.logprobs[i], static_cast<float>(token_logprob(logits, made.ids[i]))) << i;
    tokens.push_back(made.ids[i]);
  }
}

TEST_F(Generator, a_sequence_is_continued_the_same_alone_and_among_others) {
  const std::vector<std::vector<TokenId>> prompts = {{1}, {2, 3}, {4}, {5, 6}, {7, 8, 9}, {10}};
  std::vector<GenerateRequest> requests;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    requests.push_back({prompts[i], {7, static_cast<std::uint32_t>(i), 0}});
  }
  GenerateOptions options;
  options.sampler.temperature = 1.0;
  options.max_new_tokens = 12;
  options.logprobs = true;
  const auto together = generate(run_, model_, requests, options);
  options.batch = 2;
  const auto in_pairs = generate(run_, model_, requests, options);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const auto alone = generate(run_, model_, {&requests[i], 1}, options).front();
    EXPECT_EQ(together[i].ids, alone.ids) << i;
    EXPECT_EQ(together[i].logprobs, alone.logprobs) << i;
    EXPECT_EQ(in_pairs[i].ids, alone.ids) << i;
  }
  EXPECT_NE(together[0].ids, together[2].ids);
}

TEST_F(Generator, prompts_of_any_lengths_are_continued_together_as_each_alone) {
  std::vector<std::vector<TokenId>> prompts;
  for (const std::size_t length : {7u, 1u, 4u, 8u, 2u, 10u, 5u, 3u, 10u}) {  // a context is 8
    prompts.emplace_back();
    for (std::size_t i = 0; i < length; ++i) {
      prompts.back().push_back(static_cast<TokenId>((5 * i + 3 * length) % 23));
    }
  }
  std::vector<GenerateRequest> requests;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    requests.push_back({prompts[i], {7, static_cast<std::uint32_t>(i), 0}});
  }
  for (const bool slide : {true, false}) {
    if (!slide) {  // too long for it
      std::erase_if(requests, [](const GenerateRequest& r) { return r.prompt.size() > 8; });
    }
    for (const Index tokens : {0, 1, 5, 30}) {
      GenerateOptions options;
      options.sampler.temperature = 1.0;
      options.sampler.repeat_penalty = 1.2;
      options.max_new_tokens = tokens;
      options.logprobs = true;
      options.slide = slide;
      options.eos_tokens = {11};
      const auto together = generate(run_, model_, requests, options);
      for (std::size_t i = 0; i < requests.size(); ++i) {
        const auto alone = generate(run_, model_, {&requests[i], 1}, options).front();
        EXPECT_EQ(together[i].ids, alone.ids) << i << " of " << tokens;
        EXPECT_EQ(together[i].logprobs, alone.logprobs) << i << " of " << tokens;
        EXPECT_EQ(together[i].stop, alone.stop) << i << " of " << tokens;
        if (slide && alone.stop == StopReason::kLength) {
          EXPECT_EQ(static_cast<Index>(alone.ids.size()), tokens);
        }
      }
    }
  }
}

TEST_F(Generator, rows_end_at_their_own_end_of_text) {
  const std::vector<TokenId> a = {5, 1}, b = {2, 3};
  const std::vector<GenerateRequest> requests = {{a, {}}, {b, {}}};
  GenerateOptions options = greedy(8);
  const auto free = generate(run_, model_, requests, options);
  // The first row's fourth token ends a row wherever it appears.
  const TokenId eos = free[0].ids[3];
  options.eos_tokens = {eos};
  const auto ended = generate(run_, model_, requests, options);
  for (std::size_t row = 0; row < 2; ++row) {
    std::vector<TokenId> expected;
    for (TokenId id : free[row].ids) {
      expected.push_back(id);
      if (id == eos) break;
    }
    EXPECT_EQ(ended[row].ids, expected) << row;
    EXPECT_EQ(ended[row].stop, expected.back() == eos ? StopReason::kEos : StopReason::kLength);
  }
  EXPECT_EQ(ended[0].stop, StopReason::kEos);
}

TEST_F(Generator, without_sliding_it_ends_where_the_context_is_full) {
  GenerateOptions options = greedy(50);
  options.slide = false;
  EXPECT_EQ(one({1, 2, 3}, options).ids.size(), 6u);  // the last is predicted from all 8
  EXPECT_EQ(one({1, 2, 3, 4, 5, 6, 7, 8}, options).ids.size(), 1u);
  EXPECT_THROW(one({1, 2, 3, 4, 5, 6, 7, 8, 9}, options), DataError);
}

TEST_F(Generator, sliding_is_told_once_and_only_when_tokens_fall_out) {
  int told = 0;
  GenerateCallbacks callbacks;
  callbacks.on_slide = [&] { ++told; };
  one({1, 2, 3}, greedy(6), callbacks);
  EXPECT_EQ(told, 0);
  one({1, 2, 3}, greedy(20), callbacks);
  EXPECT_EQ(told, 1);
  one({1, 2, 3, 4, 5, 6, 7, 8, 9}, greedy(1), callbacks);
  EXPECT_EQ(told, 2);
}

TEST_F(Generator, a_callback_sees_each_token_and_may_end_its_sequence) {
  std::vector<TokenId> seen;
  GenerateCallbacks callbacks;
  callbacks.on_token = [&](const NewToken& token) {
    EXPECT_EQ(token.position, static_cast<Index>(seen.size()));
    seen.push_back(token.id);
    return seen.size() < 5;
  };
  const Generation made = one({1}, greedy(50), callbacks);
  EXPECT_EQ(made.ids, seen);
  EXPECT_EQ(made.ids.size(), 5u);
  EXPECT_EQ(made.stop, StopReason::kCallback);
}

TEST_F(Generator, packed_weights_change_no_bit) {
  const Generation before = one({5, 1, 9}, greedy(12));
  model_.pack(run_);
  const Generation after = one({5, 1, 9}, greedy(12));
  EXPECT_EQ(before.ids, after.ids);
  EXPECT_EQ(before.logprobs, after.logprobs);
}

TEST_F(Generator, wrong_prompts_and_options_are_refused) {
  EXPECT_THROW(one({}, greedy(1)), DataError);
  EXPECT_THROW(one({23}, greedy(1)), ShapeError);
  EXPECT_THROW(one({-1}, greedy(1)), ShapeError);
  EXPECT_THROW(one({1}, greedy(-1)), ConfigError);
  EXPECT_TRUE(one({1}, greedy(0)).ids.empty());
}

TEST_F(Generator, weights_that_are_no_numbers_are_a_numerical_error) {
  for (Parameter& parameter : model_.parameters()) {
    parameter.value[0] = std::numeric_limits<float>::quiet_NaN();
  }
  EXPECT_THROW(one({0}, greedy(1)), NumericalError);
}

TEST_F(Generator, ids_that_the_tokenizer_lacks_are_never_chosen) {
  for (Parameter& p : model_.parameters()) {  // the last five the likeliest by far
    if (p.name != "transformer.wte.weight") continue;
    for (std::size_t i = 18 * 16; i < p.value.size(); ++i) p.value[i] *= 20.0f;
  }
  GenerateOptions options = greedy(20);
  options.sampler.repeat_penalty = 1.1;
  const auto lacks = [](TokenId id) { return id >= 18; };
  EXPECT_TRUE(std::ranges::any_of(one({5, 20}, options).ids, lacks));
  options.vocab_size = 18;
  EXPECT_TRUE(std::ranges::none_of(one({5, 20}, options).ids, lacks));
  options.sampler.temperature = 1.0;
  options.sampler.frequency_penalty = 0.5;
  EXPECT_TRUE(std::ranges::none_of(one({5, 20}, options).ids, lacks));
}

TEST_F(Generator, refuses_a_vocabulary_larger_than_the_models) {
  GenerateOptions options = greedy(1);
  options.vocab_size = 24;
  EXPECT_THROW(one({1}, options), ConfigError);
  options.vocab_size = -1;
  EXPECT_THROW(one({1}, options), ConfigError);
}

}  // namespace
}  // namespace prenorm
