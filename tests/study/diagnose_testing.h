// What the tests of the diagnosis share: a small model whose every part shows, and what code with
// mistakes in it computes, made by the textbook and rounded as float32 code rounds.
#pragma once
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "prenorm/reference/mistake_table.h"
#include "prenorm/study/diagnose.h"
#include "prenorm/study/diagnose_hypotheses.h"

namespace prenorm {

struct SmallModel {
  Index layers = 3, heads = 2, width = 16, inner = 32, vocabulary = 40, positions = 24;
  bool tied = true;
  unsigned seed = 1;
};

inline DiagnoseModel small_diagnose_model(const SmallModel& size = {}) {
  DiagnoseModel model;
  model.settings.n_layer = size.layers;
  model.settings.n_head = size.heads;
  model.settings.tied = size.tied;
  model.scales.resize(static_cast<std::size_t>(size.layers));
  std::mt19937 generator(size.seed);
  std::normal_distribution<float> normal;
  const auto random = [&](std::vector<Index> shape, float spread, float mean = 0.0f) {
    Floats t(std::move(shape));
    for (float& x : t) x = mean + spread * normal(generator);
    return t;
  };
  const auto norm = [&](reference::LayerNormParameters<float>& p) {
    p = {random({size.width}, 0.3f, 1.0f), random({size.width}, 0.2f)};
  };
  const auto linear = [&](reference::LinearParameters<float>& p, Index in, Index out) {
    const float spread = 1.2f / std::sqrt(static_cast<float>(in));
    p = {random({in, out}, spread), random({out}, 0.15f)};
  };
  auto& p = model.parameters;
  p.embedding.wte = random({size.vocabulary, size.width}, 0.15f, 0.02f);
  p.embedding.wpe = random({size.positions, size.width}, 0.1f);
  p.h.resize(static_cast<std::size_t>(size.layers));
  for (auto& block : p.h) {
    norm(block.ln_1);
    norm(block.ln_2);
    linear(block.attn.c_attn, size.width, 3 * size.width);
    linear(block.attn.c_proj, size.width, size.width);
    linear(block.mlp.c_fc, size.width, size.inner);
    linear(block.mlp.c_proj, size.inner, size.width);
  }
  norm(p.ln_f);
  if (!size.tied) p.lm_head = random({size.vocabulary, size.width}, 0.15f);
  return model;
}

inline reference::Tokens small_tokens(const SmallModel& size = {}, Index batch = 2,
                                      Index time = 18) {
  std::mt19937 generator(size.seed + 100);
  std::uniform_int_distribution<TokenId> token(0, static_cast<TokenId>(size.vocabulary - 1));
  reference::Tokens tokens({batch, time});
  for (TokenId& id : tokens) id = token(generator);
  return tokens;
}

// What a dump of mistaken code holds.
enum class Dumped { kStages, kLogits };

// Float32 code with these mistakes: every operation's result is rounded.
inline DiagnoseInput dump_of(const DiagnoseModel& model, const reference::Tokens& tokens,
                             const Mistakes& mistakes, Dumped dumped,
                             reference::Numbers numbers = reference::Numbers::kFloat32) {
  reference::GptOptions options = model.options();
  // First the type of the whole run, which a mistake may lower in one place.
  reference::compute_in(options, numbers);
  options = with_mistakes(options, mistakes);
  reference::Stages<double> stages;
  const auto p = reference::cast<double>(model.parameters);
  reference::gpt(tokens, p, options, {}, reference::Recorder<double>(&stages));
  DiagnoseInput input;
  input.numbers = numbers;
  input.logits_only = dumped == Dumped::kLogits;
  DiagnoseProblem& problem = input.problem;
  problem.batch = tokens.dim(0);
  problem.time = tokens.dim(1);
  problem.tokens = tokens.values();
  for (Index v = 0; v < model.vocabulary(); ++v) problem.logit_columns.push_back(v);
  const StageList list(model.layers());
  for (const auto& [name, value] : stages.entries()) {
    const auto found = list.find(name, NameLayout::kHuggingFace);
    if (!found || (input.logits_only && found->slot != list.logits())) continue;
    const Values rows = value.reshaped({value.rows(), value.columns()});
    problem.theirs[found->slot] = std::make_shared<const Values>(rows);
    if (found->slot == list.logits()) input.logits = reference::cast<float>(rows);
  }
  return input;
}

}  // namespace prenorm
