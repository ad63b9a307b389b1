// Ops of the sampler: from logits to the next token.
#include <algorithm>
#include <cmath>
#include <regex>

#include "prenorm/base/error.h"
#include "prenorm/generate/sampler.h"
#include "tests/cases/registry.h"

namespace prenorm::cases {
namespace {

std::vector<float> read_logits(Case& c) {
  const auto logits = c.input.array("logits");
  if (!logits || logits->shape.size() != 1) throw BadCase("input.logits: expected a list");
  return floats_from(*logits).values;
}

// Everything off but what the case gives; top_k may be a list, which the caller reads.
SamplerOptions read_options(Case& c) {
  SamplerOptions options;
  options.temperature = c.input.number("temperature", 1.0);
  options.top_k = 0;
  options.top_p = c.input.number("top_p", 1.0);
  options.min_p = c.input.number("min_p", 0.0);
  options.repeat_penalty = c.input.number("penalty", 1.0);
  options.frequency_penalty = c.input.number("frequency_penalty", 0.0);
  options.presence_penalty = c.input.number("presence_penalty", 0.0);
  return options;
}

// The probabilities of all tokens, 0 for those that are filtered out.
Array probabilities(const std::vector<float>& logits, const SamplerOptions& options) {
  options.validate();
  Array all{{static_cast<Index>(logits.size())}, std::vector<double>(logits.size(), 0.0)};
  for (const auto& [id, p] : token_distribution(logits, {}, options)) {
    all.values[static_cast<std::size_t>(id)] = p;
  }
  return all;
}

// --- One token
// ------------------------------------------------------------------------------------

TokenId sampled(const std::vector<float>& logits, const SamplerOptions& options,
                std::uint64_t seed) {
  options.validate();
  return sample_token(logits, {}, options, sampling_number({seed, 0, 0}, 0));
}

void sample(Case& c) {
  const std::vector<float> logits = read_logits(c);
  SamplerOptions options = read_options(c);
  options.top_k = c.input.integer("top_k", 0);
  const Index repeat = c.input.integer("repeat", 1);
  const bool certain = options.temperature == 0.0;
  const auto seed = static_cast<std::uint64_t>(c.input.integer("seed", 0));
  for (Index i = 0; i < repeat; ++i) {
    c.check("id", static_cast<double>(sampled(logits, options,
                                              seed + static_cast<std::uint64_t>(certain ? i : 0))));
    if (!certain) continue;
    SamplerOptions other = options;  // "independent of seed, top_k, top_p"
    other.top_k = 1 + i % static_cast<Index>(logits.size() + 2);
    other.top_p = static_cast<double>(1 + i % 10) / 10.0;
    other.min_p = static_cast<double>(i % 7) / 10.0;
    c.check("id",
            static_cast<double>(sampled(logits, other, static_cast<std::uint64_t>(repeat + i))));
  }
  c.promise("property");
}

// --- Distributions
// --------------------------------------------------------------------------------

// "error (or disabled, documented)", "documented: disabled or error": what is allowed is tried.
void check_promise(Case& c, const std::string& key, const std::string& promise,
                   const std::vector<float>& logits, const SamplerOptions& options) {
  SamplerOptions off = options;
  off.top_k = 0;
  std::optional<Array> found;
  try {
    found = probabilities(logits, options);
  } catch (const Error& error) {
    c.require(mentions(promise, "error"), key + ": " + promise, error.what());
    c.require(mentions(error.what(), "top_k") && mentions(error.what(), key),
              "an error that names top_k and " + key, error.what());
    return;
  }
  std::smatch id;
  if (std::regex_search(promise, id, std::regex(R"(id (\d+))"))) {
    // "id 1 (lowest of the tie) with probability 1, or both tied ids 0.5 each"
    const auto first = static_cast<std::size_t>(std::stoul(id[1]));
    if (first >= logits.size()) throw BadCase("expected." + key + ": no such id");
    const auto ties = std::ranges::count(logits, logits[first]);
    const double p = found->values[first];
    const bool shared = mentions(promise, "tied") && p == 1.0 / static_cast<double>(ties) &&
                        std::ranges::count(found->values, p) == ties;
    c.require(p == 1.0 || shared, key + ": " + promise, std::to_string(p));
    return;
  }
  if (!mentions(promise, "disabled")) throw BadCase("expected." + key + ": not understood");
  c.require(found->values == probabilities(logits, off).values, key + ": " + promise);
}

void sample_probs(Case& c) {
  const std::vector<float> logits = read_logits(c);
  SamplerOptions options = read_options(c);
  const Json* given = c.input.find("top_k");
  std::vector<Index> counts = {0};
  if (given != nullptr)
    counts = given->is_array() ? given->get<std::vector<Index>>()
                               : std::vector<Index>{given->get<Index>()};
  for (const Index k : counts) {
    options.top_k = k;
    const std::string key = std::to_string(k);
    if (!c.expected.has(key)) {
      c.check("probs", probabilities(logits, options));
    } else if (c.expected.at(key).is_string()) {
      check_promise(c, key, c.expected.text(key), logits, options);
    } else {
      c.check(key, probabilities(logits, options));
    }
  }
}

void top_p_set(Case& c) {
  const Json& cases = c.input.at("cases");
  const Json& kept = c.expected.at("kept");
  if (kept.size() != cases.size()) throw BadCase("expected.kept: not one for each case");
  for (std::size_t i = 0; i < cases.size(); ++i) {
    Fields one(cases[i], "input.cases");
    std::vector<float> logits;
    const Array probabilities = array_from(one.at("probs"));
    for (const double p : probabilities.values) {
      logits.push_back(static_cast<float>(std::log(p)));
    }
    SamplerOptions options;
    options.temperature = 1.0;
    options.top_k = 0;
    options.min_p = 0.0;
    options.top_p = one.number("p");
    for (const std::string& key : one.unread()) throw BadCase(key + ": not known");
    Array ids{{0}, {}};
    for (const auto& [id, p] : token_distribution(logits, {}, options)) {
      ids.values.push_back(id);
      ++ids.shape[0];
    }
    c.check_against("kept[" + std::to_string(i) + "]", kept[i], ids);
  }
}

// Penalties of tokens seen: in the prompt, or with frequency or presence, in the continuation.
void repetition_penalty(Case& c) {
  const std::vector<float> logits = read_logits(c);
  const std::vector<TokenId> seen = tokens_from(c.input.at("seen"));
  const SamplerOptions options = read_options(c);
  options.validate();
  const bool counted = options.frequency_penalty != 0.0 || options.presence_penalty != 0.0;
  const TokenHistory history{counted ? std::span<const TokenId>() : seen,
                             counted ? seen : std::span<const TokenId>()};
  c.check("logits",
          Array{{static_cast<Index>(logits.size())}, penalized_logits(logits, history, options)});
}

// The first of equal maxima, on every way to it.
void argmax(Case& c) {
  std::vector<TokenId> ids;
  for (const Json& one : c.input.at("cases")) {
    const std::vector<float> logits = floats_from(array_from(one)).values;
    ids.push_back(greedy_token(logits));
    SamplerOptions options;
    options.temperature = 0.0;
    c.require(sampled(logits, options, 1) == ids.back(), "sampling at temperature 0 to agree");
    c.require(token_distribution(logits, {}, options).front().id == ids.back(),
              "the distribution at temperature 0 to agree");
  }
  c.check("ids", ids);
}

}  // namespace

void add_sampling_ops(Registry& ops) {
  ops["sample"] = sample;
  ops["sample_probs"] = sample_probs;
  ops["top_p_set"] = top_p_set;
  ops["repetition_penalty"] = repetition_penalty;
  ops["argmax"] = argmax;
}

}  // namespace prenorm::cases
