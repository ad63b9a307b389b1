// What the tests of the property checks share: models to check, and what a planted defect does.
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "prenorm/reference/adjoint.h"
#include "prenorm/study/check_subject.h"
#include "tests/config_of.h"

namespace prenorm {

inline GptConfig small_config(NormPlacement norm = NormPlacement::kPre, bool tied = true) {
  GptConfig c = config_of(2, 2, 10, 80, 23);
  c.n_inner = 31;
  c.norm = norm;
  c.tie_word_embeddings = tied;
  return c;
}

// Both norm placements, tied and untied.
inline std::vector<GptConfig> each_kind() {
  std::vector<GptConfig> all;
  for (NormPlacement norm : {NormPlacement::kPre, NormPlacement::kPost}) {
    for (bool tied : {true, false}) all.push_back(small_config(norm, tied));
  }
  return all;
}

inline std::string name(const GptConfig& c) {
  return std::string(norm_placement_name(c.norm)) + (c.tie_word_embeddings ? " tied" : " untied");
}

// Random weights of order one everywhere, biases and norms too.
inline std::unique_ptr<Gpt> random_model(const GptConfig& config) {
  auto model = std::make_unique<Gpt>(config, Gpt::Mode::kInference);
  std::uint64_t seed = 1;
  for (Parameter& p : model->parameters()) {
    const Values values = reference::random_tensor(p.shape, ++seed, 0.7);
    std::ranges::transform(values, p.value.begin(), [](double x) { return static_cast<float>(x); });
  }
  return model;
}

inline std::vector<float> logits_of(const Runtime& run, const Gpt& model,
                                    const std::vector<TokenId>& tokens) {
  const auto time = static_cast<Index>(tokens.size());
  const Index vocabulary = model.config().vocab_size;
  Gpt::Workspace work = model.make_workspace(1, time);
  std::vector<float> logits(static_cast<std::size_t>(time * vocabulary));
  model.logits(run, work, {tokens.data(), {1, time}}, {logits.data(), {time, vocabulary}});
  return logits;
}

// The smallest defect there is: one number, one unit in its last place.
inline void nudge(float& value) {
  value = std::nextafter(value, std::numeric_limits<float>::infinity());
}

// The names of the properties that fail.
inline std::vector<std::string> failures(const std::vector<Property>& found) {
  std::vector<std::string> names;
  for (const Property& p : found) {
    if (!p.passed()) names.push_back(p.name);
  }
  return names;
}

// A part of the check on a model with random weights.
template <typename Part>
std::vector<Property> checked(Part part, const GptConfig& config,
                              const CheckSeams& seams = CheckSeams()) {
  const Runtime run({.threads = 2});
  const auto model = random_model(config);
  return part({run, *model, seams, 1, {}});
}

}  // namespace prenorm
