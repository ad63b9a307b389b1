#include "prenorm/generate/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <unordered_map>

#include "prenorm/base/error.h"
#include "prenorm/base/philox.h"
#include "prenorm/base/portable_math.h"

namespace prenorm {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

struct Scored {
  TokenId id;
  double logit;
};

void require(bool good, const char* what, const char* expected, double found) {
  if (good) return;
  throw ConfigError(std::string(what) + ": expected " + expected + ", found " +
                    std::to_string(found));
}

// Widened logits; refuses those that no distribution can be made of.
std::vector<double> checked_logits(std::span<const float> logits) {
  bool any = false;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (std::isnan(logits[i]) || logits[i] == std::numeric_limits<float>::infinity()) {
      throw NumericalError("logits: expected finite numbers, found " +
                           std::string(std::isnan(logits[i]) ? "NaN" : "infinity") + " for token " +
                           std::to_string(i));
    }
    any = any || std::isfinite(logits[i]);
  }
  if (!any) throw NumericalError("logits: expected a finite number, found none");
  return {logits.begin(), logits.end()};
}

void apply_penalties(std::span<double> logits, const TokenHistory& history,
                     const SamplerOptions& options) {
  const auto at = [&](TokenId id) -> double& { return logits[static_cast<std::size_t>(id)]; };
  const auto known = [&](TokenId id) { return static_cast<std::size_t>(id) < logits.size(); };
  if (options.repeat_penalty != 1.0) {
    std::vector<bool> seen(logits.size());
    for (std::span<const TokenId> tokens : {history.prompt, history.generated}) {
      for (TokenId id : tokens) {
        if (!known(id) || seen[static_cast<std::size_t>(id)]) continue;
        seen[static_cast<std::size_t>(id)] = true;
        double& logit = at(id);
        logit = logit < 0 ? logit * options.repeat_penalty : logit / options.repeat_penalty;
      }
    }
  }
  if (options.frequency_penalty != 0.0 || options.presence_penalty != 0.0) {
    std::unordered_map<TokenId, Index> counts;
    for (TokenId id : history.generated) {
      if (known(id)) ++counts[id];
    }
    for (const auto& [id, count] : counts) {
      at(id) -= static_cast<double>(count) * options.frequency_penalty + options.presence_penalty;
    }
  }
}

// The k-th largest logit, so that tokens below it go.
double top_k_threshold(std::vector<double> logits, Index k) {
  if (k <= 0 || k >= static_cast<Index>(logits.size())) return kMinusInfinity;
  const auto kth = logits.begin() + (k - 1);
  std::nth_element(logits.begin(), kth, logits.end(), std::greater<>());
  return *kth;
}

// exp(logit − largest) of each candidate, and their sum in the candidates' order.
std::vector<double> weights_of(std::span<const Scored> candidates, double largest, double& total) {
  std::vector<double> weights;
  weights.reserve(candidates.size());
  total = 0.0;
  for (const Scored& candidate : candidates) {
    weights.push_back(portable_exp(candidate.logit - largest));
    total += weights.back();
  }
  return weights;
}

// Keeps the fewest first candidates that together have at least the probability p. The candidates
// come in descending order.
void keep_top_p(std::vector<Scored>& candidates, double p) {
  double total = 0.0;
  const std::vector<double> weights = weights_of(candidates, candidates.front().logit, total);
  double sum = 0.0;
  std::size_t kept = 0;
  while (kept < candidates.size() && (kept == 0 || sum < p * total)) sum += weights[kept++];
  candidates.resize(kept);
}

std::vector<Scored> filtered(std::span<const double> logits, const SamplerOptions& options) {
  const double threshold = options.top_k > 0
                               ? top_k_threshold({logits.begin(), logits.end()}, options.top_k)
                               : kMinusInfinity;
  std::vector<Scored> candidates;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] >= threshold && logits[i] != kMinusInfinity) {
      candidates.push_back({static_cast<TokenId>(i), logits[i]});
    }
  }
  if (options.top_p < 1.0) {
    std::sort(candidates.begin(), candidates.end(), [](const Scored& a, const Scored& b) {
      return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
    });
    keep_top_p(candidates, options.top_p);
    std::sort(candidates.begin(), candidates.end(),
              [](const Scored& a, const Scored& b) { return a.id < b.id; });
  }
  if (options.min_p > 0.0) {
    double largest = kMinusInfinity;
    for (const Scored& candidate : candidates) largest = std::max(largest, candidate.logit);
    std::erase_if(candidates, [&](const Scored& candidate) {
      return portable_exp(candidate.logit - largest) < options.min_p;
    });
  }
  return candidates;
}

}  // namespace

void SamplerOptions::validate() const {
  require(temperature >= 0.0 && std::isfinite(temperature), "temp", "a number of at least 0",
          temperature);
  require(top_k >= 0, "top_k", "a whole number of at least 0", static_cast<double>(top_k));
  require(top_p > 0.0 && top_p <= 1.0, "top_p", "a number above 0 and at most 1", top_p);
  require(min_p >= 0.0 && min_p <= 1.0, "min_p", "a number from 0 to 1", min_p);
  require(repeat_penalty > 0.0 && std::isfinite(repeat_penalty), "repeat_penalty",
          "a number above 0", repeat_penalty);
  require(std::isfinite(frequency_penalty), "frequency_penalty", "a finite number",
          frequency_penalty);
  require(std::isfinite(presence_penalty), "presence_penalty", "a finite number", presence_penalty);
}

TokenId greedy_token(std::span<const float> logits) {
  const std::vector<double> checked = checked_logits(logits);
  return static_cast<TokenId>(std::max_element(checked.begin(), checked.end()) - checked.begin());
}

std::vector<double> penalized_logits(std::span<const float> logits, const TokenHistory& history,
                                     const SamplerOptions& options) {
  std::vector<double> scores = checked_logits(logits);
  apply_penalties(scores, history, options);
  return scores;
}

std::vector<TokenProbability> token_distribution(std::span<const float> logits,
                                                 const TokenHistory& history,
                                                 const SamplerOptions& options) {
  std::vector<double> scores = penalized_logits(logits, history, options);
  const auto first_best = std::max_element(scores.begin(), scores.end());
  if (options.temperature == 0.0) {
    return {{static_cast<TokenId>(first_best - scores.begin()), 1.0}};
  }
  // A tiny temperature may overflow the quotient: differences from the largest stay below zero.
  const double largest = *first_best;
  for (double& score : scores) score = (score - largest) / options.temperature;

  const std::vector<Scored> candidates = filtered(scores, options);
  double total = 0.0;
  const std::vector<double> weights = weights_of(candidates, 0.0, total);
  std::vector<TokenProbability> distribution;
  distribution.reserve(candidates.size());
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    distribution.push_back({candidates[i].id, weights[i] / total});
  }
  return distribution;
}

TokenId sample_token(std::span<const float> logits, const TokenHistory& history,
                     const SamplerOptions& options, double uniform) {
  const auto distribution = token_distribution(logits, history, options);
  double cumulative = 0.0;
  TokenId last_possible = distribution.front().id;
  for (const auto& [id, probability] : distribution) {
    cumulative += probability;
    if (uniform < cumulative) return id;
    if (probability > 0.0) last_possible = id;
  }
  return last_possible;  // the sum rounded to less than the random number
}

double token_logprob(std::span<const float> logits, TokenId token) {
  const std::vector<double> checked = checked_logits(logits);
  const double largest = *std::max_element(checked.begin(), checked.end());
  double total = 0.0;
  for (double logit : checked) total += portable_exp(logit - largest);
  return checked[static_cast<std::size_t>(token)] - largest - portable_log(total);
}

double sampling_number(const SamplingStream& stream, Index position) {
  const RandomStream random{stream.seed, Purpose::kSampling, stream.prompt, stream.sample};
  return random_double(random.key(), static_cast<std::uint64_t>(position));
}

}  // namespace prenorm
