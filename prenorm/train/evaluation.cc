#include "prenorm/train/evaluation.h"

#include <algorithm>
#include <vector>

namespace prenorm {

std::optional<double> evaluate_windows(const Runtime& run, const Gpt& model, Gpt::Workspace& work,
                                       std::span<const TokenId> tokens,
                                       const EvaluationOptions& options,
                                       const std::function<bool()>& should_stop) {
  const Index targets = static_cast<Index>(tokens.size()) - 1, time = options.time;
  if (targets < 1) return std::nullopt;
  const Index windows = ceil_div(targets, time);
  const bool all = options.max_windows == 0 || options.max_windows >= windows;
  const Index chosen = all ? windows : options.max_windows;
  std::vector<TokenId> inputs, nexts;
  LossSum sum;
  Index rows = 0;
  const auto pass = [&](Index length) {
    sum += model.evaluate(
        run, work,
        {TokenMatrix(inputs.data(), {rows, length}), TokenMatrix(nexts.data(), {rows, length})});
    inputs.clear();
    nexts.clear();
    rows = 0;
  };
  for (Index i = 0; i < chosen; ++i) {
    const Index window = all ? i : i * windows / chosen;
    const Index start = window * time, length = std::min(time, targets - start);
    if (length < time && rows > 0) pass(time);  // the short one goes alone
    const auto text = tokens.subspan(static_cast<std::size_t>(start));
    inputs.insert(inputs.end(), text.begin(), text.begin() + length);
    nexts.insert(nexts.end(), text.begin() + 1, text.begin() + 1 + length);
    if (++rows == options.batch || i + 1 == chosen || length < time) pass(length);
    if (should_stop && rows == 0 && i + 1 < chosen && should_stop()) return std::nullopt;
  }
  return sum.mean();
}

}  // namespace prenorm
