#include "prenorm/train/evaluation.h"

#include <algorithm>
#include <string>
#include <vector>

#include "prenorm/base/error.h"
#include "prenorm/kernels/cross_entropy.h"

namespace prenorm {
namespace {

// Passes dealt to the ranks in turn, their sums added in the order of the passes.
class DealtSums {
 public:
  explicit DealtSums(Ranks* ranks) : ranks_(ranks) {}

  // Whether the next pass is this rank's.
  bool mine() const { return passes_ % size() == (ranks_ == nullptr ? 0 : ranks_->rank()); }
  // A round ends where each rank has had a pass: all of them come by together.
  bool ends_round() const { return passes_ % size() == 0; }
  void add(const LossSum& sum) {
    own_.push_back(sum.loss);
    own_.push_back(static_cast<double>(sum.count));
  }
  void next() { ++passes_; }

  LossSum total() const {
    std::vector<std::size_t> counts, at;
    std::size_t before = 0;
    for (Index r = 0; r < size(); ++r) {
      counts.push_back(2 * static_cast<std::size_t>((passes_ + size() - 1 - r) / size()));
      at.push_back(before);
      before += counts.back();
    }
    const std::vector<double> all = ranks_ == nullptr ? own_ : exchange(*ranks_, own_, counts);
    LossSum sum;
    for (Index pass = 0; pass < passes_; ++pass) {
      std::size_t& i = at[static_cast<std::size_t>(pass % size())];
      sum += {all[i], static_cast<Index>(all[i + 1])};
      i += 2;
    }
    return sum;
  }

 private:
  Index size() const { return ranks_ == nullptr ? 1 : ranks_->size(); }

  Ranks* ranks_;
  Index passes_ = 0;
  std::vector<double> own_;
};

}  // namespace

std::optional<double> evaluate_windows(const Runtime& run, const Gpt& model, Gpt::Workspace& work,
                                       std::span<const TokenId> tokens,
                                       const EvaluationOptions& options,
                                       const std::function<bool()>& should_stop, Ranks* ranks) {
  const Index targets = static_cast<Index>(tokens.size()) - 1, time = options.time;
  if (targets < 1) return std::nullopt;
  const Index windows = ceil_div(targets, time);
  const bool all = options.max_windows == 0 || options.max_windows >= windows;
  const Index chosen = all ? windows : options.max_windows;
  std::vector<TokenId> inputs, nexts;
  DealtSums sums(ranks);
  Index rows = 0;
  const auto pass = [&](Index length) {
    if (sums.mine()) {
      sums.add(model.evaluate(
          run, work,
          {TokenMatrix(inputs.data(), {rows, length}), TokenMatrix(nexts.data(), {rows, length})}));
    }
    sums.next();
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
    const bool asks = should_stop && rows == 0 && i + 1 < chosen && sums.ends_round();
    if (asks && should_stop()) return std::nullopt;
  }
  return sums.total().mean();
}

std::optional<LossSum> evaluate_strided(const Runtime& run, const Gpt& model,
                                        std::span<const TokenId> tokens,
                                        const StrideOptions& options) {
  const auto require = [](bool good, const char* what, Index low, Index high, Index found) {
    if (good) return;
    throw ConfigError(std::string(what) + ": expected " + std::to_string(low) + " to " +
                      std::to_string(high) + ", found " + std::to_string(found));
  };
  const Index size = static_cast<Index>(tokens.size()), context = model.config().block_size;
  require(options.window >= 2 && options.window <= context, "window", 2, context, options.window);
  require(options.stride >= 1 && options.stride <= options.window, "stride", 1, options.window,
          options.stride);
  if (size < 2) return std::nullopt;
  const Index window = std::min(options.window, size);
  const Index windows = 1 + ceil_div(size - window, options.stride);
  const Index batch = std::clamp<Index>(options.batch, 1, windows);
  Gpt::Workspace work = model.make_workspace(batch, window - 1);
  std::vector<TokenId> inputs, nexts;
  LossSum sum;
  Index rows = 0, seen = 0;
  for (Index i = 0; i < windows; ++i) {
    const Index begin = i * options.stride, end = std::min(begin + window, size);
    const Index length = end - begin - 1;
    const auto pass = [&](Index time) {
      if (rows == 0) return;
      sum += model.evaluate(
          run, work,
          {TokenMatrix(inputs.data(), {rows, time}), TokenMatrix(nexts.data(), {rows, time})});
      inputs.clear();
      nexts.clear();
      rows = 0;
    };
    if (length < window - 1) pass(window - 1);  // the short one goes alone
    if (length == 0) break;                     // one token, predicted from nothing
    const auto text = tokens.subspan(static_cast<std::size_t>(begin));
    inputs.insert(inputs.end(), text.begin(), text.begin() + length);
    nexts.insert(nexts.end(), text.begin() + 1, text.begin() + 1 + length);
    for (Index t = begin + 1; t < seen; ++t) {
      nexts[static_cast<std::size_t>(rows * length + t - begin - 1)] = kernels::kIgnoreTarget;
    }
    seen = end;
    if (++rows == batch || i + 1 == windows) pass(length);
  }
  return sum;
}

}  // namespace prenorm
