// From logits to the next token. Every function here is pure: the same logits, history, options and
// random number give the same token on every machine.
//
//   const double u = sampling_number({.seed = 1, .prompt = 0, .sample = 0}, position);
//   TokenId next = sample_token(logits, {prompt, generated}, options, u);
//
// The order is that of transformers: penalties, temperature, top-k, top-p, min-p. All arithmetic is
// in double.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "prenorm/base/index.h"

namespace prenorm {

struct SamplerOptions {
  double temperature = 0.8;  // 0: the likeliest token, the first on ties
  // Tokens whose logit is at least the k-th largest; those that tie with it stay. 0: off.
  Index top_k = 40;
  double top_p = 0.95;  // the fewest likeliest tokens with at least this probability; 1: off
  double min_p = 0.05;  // tokens at least this times as likely as the likeliest; 0: off
  // Over tokens of prompt and continuation, once each: logit / penalty, or logit * penalty where
  // the logit is negative (Keskar et al., "CTRL", 2019). 1: off.
  double repeat_penalty = 1.0;
  // Over tokens of the continuation: logit − count * frequency − presence (OpenAI's). 0: off.
  double frequency_penalty = 0.0;
  double presence_penalty = 0.0;

  // Throws ConfigError naming the option, what was expected and what was found.
  void validate() const;
};

// What came before the token to choose. An id that has no logit is passed over.
struct TokenHistory {
  std::span<const TokenId> prompt, generated;
};

struct TokenProbability {
  TokenId id = 0;
  double probability = 0.0;
};

// The index of the largest logit, the first of equal ones. Throws NumericalError as below.
TokenId greedy_token(std::span<const float> logits);

// The logits after the penalties alone. Throws NumericalError as below.
std::vector<double> penalized_logits(std::span<const float> logits, const TokenHistory& history,
                                     const SamplerOptions& options);

// The tokens that may come next, in ascending order of ids, and their probabilities, which sum to
// 1. Throws NumericalError where a logit is NaN or +inf, or all are −inf.
std::vector<TokenProbability> token_distribution(std::span<const float> logits,
                                                 const TokenHistory& history,
                                                 const SamplerOptions& options);

// The token where the cumulative distribution, in ascending order of ids, passes `uniform`, a
// number in [0, 1). Throws NumericalError.
TokenId sample_token(std::span<const float> logits, const TokenHistory& history,
                     const SamplerOptions& options, double uniform);

// log softmax(logits)[token], before any penalty, temperature or filter.
double token_logprob(std::span<const float> logits, TokenId token);

// Names one continuation of one prompt of a batch.
struct SamplingStream {
  std::uint64_t seed = 0;
  std::uint32_t prompt = 0, sample = 0;
};

// The random number in [0, 1) for the new token at `position` (0 is the first after the prompt).
double sampling_number(const SamplingStream& stream, Index position);

}  // namespace prenorm
