// The mean loss of a text under a model.
#pragma once
#include <functional>
#include <optional>
#include <span>

#include "prenorm/model/gpt.h"

namespace prenorm {

struct EvaluationOptions {
  Index time = 0;         // window length; at most the workspace's
  Index batch = 1;        // windows in a pass; at most the workspace's
  Index max_windows = 0;  // 0: all; else this many, spread evenly over the text
};

// Windows of `time` tokens side by side, each with the next token as its target; the last one
// short. Σ loss / Σ tokens over all of them. Nothing where should_stop() returned true between two
// passes, or where there is no token to predict.
std::optional<double> evaluate_windows(const Runtime& run, const Gpt& model, Gpt::Workspace& work,
                                       std::span<const TokenId> tokens,
                                       const EvaluationOptions& options,
                                       const std::function<bool()>& should_stop = {});

}  // namespace prenorm
