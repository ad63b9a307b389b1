// The loss of a text under a model.
#pragma once
#include <functional>
#include <optional>
#include <span>

#include "prenorm/model/gpt.h"
#include "prenorm/train/ranks.h"

namespace prenorm {

struct EvaluationOptions {
  Index time = 0;         // window length; at most the workspace's
  Index batch = 1;        // windows in a pass; at most the workspace's
  Index max_windows = 0;  // 0: all; else this many, spread evenly over the text
};

// Windows of `time` tokens side by side, each with the next token as its target; the last one
// short. Σ loss / Σ tokens over all of them. Nothing where should_stop() returned true between two
// passes, or where there is no token to predict. Several ranks deal the passes among them: each
// gets the same loss, that of one alone to the bit, and asks should_stop() as often as the others.
std::optional<double> evaluate_windows(const Runtime& run, const Gpt& model, Gpt::Workspace& work,
                                       std::span<const TokenId> tokens,
                                       const EvaluationOptions& options,
                                       const std::function<bool()>& should_stop = {},
                                       Ranks* ranks = nullptr);

struct StrideOptions {
  Index window = 0;  // tokens that a window spans; 2 to the model's context
  Index stride = 0;  // from one window's beginning to the next's; 1 to the window
  Index batch = 1;   // windows in a pass
};

// The loss of a text over windows that overlap, as in Hugging Face's guide to the perplexity of
// models of fixed length: each window's tokens that no earlier one has seen are predicted, with at
// least window − stride tokens before them once the text is as long, and each of them counts once.
// Where the stride is the window, a window's first token is predicted from nothing and does not
// count. Throws ConfigError; nothing where there is no token to predict.
std::optional<LossSum> evaluate_strided(const Runtime& run, const Gpt& model,
                                        std::span<const TokenId> tokens,
                                        const StrideOptions& options);

}  // namespace prenorm
