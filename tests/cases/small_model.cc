#include "tests/cases/small_model.h"

#include "tests/config_of.h"

namespace prenorm::cases {
namespace {

constexpr Index kMostSequences = 64;

TokenMatrix matrix_of(std::span<const TokenId> tokens, Index batch) {
  return {tokens.data(), {batch, static_cast<Index>(tokens.size()) / batch}};
}

}  // namespace

GptConfig SmallModel::Options::config() const {
  GptConfig c = config_of(n_layer, n_head, n_embd, block_size, vocab_size);
  c.tie_word_embeddings = tie;
  c.embd_pdrop = c.attn_pdrop = c.resid_pdrop = dropout;
  c.initializer_range = initializer_range;
  return c;
}

SmallModel::SmallModel(const Options& options)
    : model_(options.config(), Gpt::Mode::kTraining),
      work_(model_.make_workspace(kMostSequences, options.block_size)) {
  model_.initialize(options.seed);
}

Array SmallModel::gradient(const std::string& name) const {
  const Parameter* parameter = model_.parameters().find("transformer." + name);
  if (parameter == nullptr) throw BadCase("no parameter " + name);
  return array_of(parameter->shape, parameter->grad);
}

LossSum SmallModel::accumulate(const Runtime& run, const std::vector<TokenId>& inputs,
                               const std::vector<TokenId>& targets, Index batch, double scale,
                               const Gpt::DropoutPosition& dropout) {
  return model_.forward_backward(run, work_, {matrix_of(inputs, batch), matrix_of(targets, batch)},
                                 scale, dropout);
}

void SmallModel::finish(const Runtime& run) { model_.finish_gradients(run, work_); }

LossSum SmallModel::forward_backward(const Runtime& run, const std::vector<TokenId>& inputs,
                                     const std::vector<TokenId>& targets, Index batch, double scale,
                                     const Gpt::DropoutPosition& dropout) {
  forget_gradients();
  const LossSum sum = accumulate(run, inputs, targets, batch, scale, dropout);
  finish(run);
  return sum;
}

LossSum SmallModel::evaluate(const Runtime& run, std::span<const TokenId> inputs,
                             std::span<const TokenId> targets) {
  return model_.evaluate(run, work_, {matrix_of(inputs, 1), matrix_of(targets, 1)});
}

std::vector<float> SmallModel::logits(const Runtime& run, std::span<const TokenId> tokens) {
  return logits_of(run, model_, tokens);
}

std::vector<float> logits_of(const Runtime& run, const Gpt& model,
                             std::span<const TokenId> tokens) {
  const Index time = static_cast<Index>(tokens.size()), vocabulary = model.config().vocab_size;
  std::vector<float> logits(static_cast<std::size_t>(time * vocabulary));
  Gpt::Workspace work = model.make_workspace(1, time);
  model.logits(run, work, matrix_of(tokens, 1), Matrix(logits.data(), {time, vocabulary}));
  return logits;
}

std::vector<std::vector<float>> logits_by_chunks(const Runtime& run, const Gpt& model,
                                                 const std::vector<std::vector<TokenId>>& chunks) {
  const Index vocabulary = model.config().vocab_size;
  Gpt::Cache cache = model.make_cache(1);
  std::vector<std::vector<float>> after;
  for (const std::vector<TokenId>& chunk : chunks) {
    after.emplace_back(static_cast<std::size_t>(vocabulary));
    model.decode(run, cache, matrix_of(chunk, 1), Matrix(after.back().data(), {1, vocabulary}));
  }
  return after;
}

}  // namespace prenorm::cases
