#include "prenorm/generate/scoring.h"

#include <fmt/format.h>

#include <algorithm>

#include "prenorm/base/error.h"
#include "prenorm/generate/sampler.h"

namespace prenorm {

std::vector<float> score_tokens(const Runtime& run, const Gpt& model,
                                std::span<const TokenId> tokens) {
  const Index vocabulary = model.config().vocab_size, context = model.config().block_size;
  if (tokens.empty()) throw DataError("tokens: expected at least one, found none");
  for (const TokenId id : tokens) {
    if (id < 0 || id >= vocabulary) {
      throw ShapeError(fmt::format("tokens: expected ids below {}, found {}", vocabulary, id));
    }
  }
  const Index predicted = static_cast<Index>(tokens.size()) - 1;
  std::vector<float> scores;
  if (predicted == 0) return scores;

  const Index time = std::min(predicted, context);
  Gpt::Workspace work = model.make_workspace(1, time);
  std::vector<float> logits(static_cast<std::size_t>(time * vocabulary));  // [T, V]
  const auto pass = [&](Index first) {
    model.logits(run, work, TokenMatrix(tokens.data() + first, {1, time}),
                 Matrix(logits.data(), {time, vocabulary}));
  };
  const auto score = [&](Index row, Index target) {
    const auto begin = static_cast<std::size_t>(row * vocabulary);
    const std::span<const float> of_row(logits.data() + begin,
                                        static_cast<std::size_t>(vocabulary));
    const TokenId id = tokens[static_cast<std::size_t>(target)];
    scores.push_back(static_cast<float>(token_logprob(of_row, id)));
  };
  pass(0);
  for (Index row = 0; row < time; ++row) score(row, row + 1);
  for (Index target = time + 1; target <= predicted; ++target) {
    pass(target - time);
    score(time - 1, target);
  }
  return scores;
}

}  // namespace prenorm
