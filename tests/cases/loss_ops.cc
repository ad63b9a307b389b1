// Ops of the loss: cross-entropy and its mean over micro-batches and over windows.
#include <cmath>

#include "prenorm/base/error.h"
#include "prenorm/layers/cross_entropy_loss.h"
#include "prenorm/train/evaluation.h"
#include "tests/cases/registry.h"
#include "tests/cases/small_model.h"
#include "tests/tolerances.h"

namespace prenorm::cases {
namespace {

constexpr TokenId kTorchIgnoreIndex = -100;

View<const TokenId, 1> labels(const std::vector<TokenId>& targets) {
  return {targets.data(), {static_cast<Index>(targets.size())}};
}

CrossEntropyLoss loss_of(Case& c, TokenId ignore_index) {
  return CrossEntropyLoss(
      {.ignore_index = ignore_index, .label_smoothing = c.input.number("label_smoothing", 0.0)});
}

Floats read_logits(Case& c) {
  if (const Json* shape = c.input.find("logits_shape")) {
    return floats_from(val(1, shape_from(*shape), 512.0));
  }
  const auto logits = c.input.array("logits");
  if (!logits || logits->shape.size() < 2) throw BadCase("input.logits: expected rows of numbers");
  return floats_from(*logits);
}

// Σ loss, or its mean over the targets that count.
double reduced(Case& c, const LossSum& sum) {
  const std::string reduction = c.input.text("reduction", "mean");
  if (reduction == "sum") return sum.loss;
  if (reduction != "mean")
    throw BadCase("input.reduction: expected mean or sum, found " + reduction);
  return sum.mean();
}

double scale_of(Case& c, Index counted) {
  return c.input.text("reduction", "mean") == "sum" ? 1.0 : 1.0 / static_cast<double>(counted);
}

// Where no target counts, the mean is NaN, no gradient comes of it, and a step with it changes no
// weight.
void nothing_counts(Case& c, const CrossEntropyLoss& loss, const Floats& logits,
                    const std::vector<TokenId>& targets) {
  Floats gradient(logits.shape);
  const LossSum sum =
      loss.forward_backward(c.run(), logits.matrix(), labels(targets), 1.0, gradient.matrix());
  c.require(sum.count == 0 && std::isnan(sum.mean()), "a mean of NaN over no target");
  c.check_against("the gradient", "zeros", array_of(gradient));

  SmallModel small({.vocab_size = 11, .block_size = 4});
  const std::vector<TokenId> inputs = {1, 2, 3, 4}, ignored(4, -1);
  const LossSum none = small.forward_backward(c.run(), inputs, ignored, 1, 1.0);
  c.require(none.count == 0 && std::isnan(none.mean()), "a model's mean of NaN over no target");
  const std::vector<float> gradients(small.gradients().begin(), small.gradients().end());
  c.check_against("the model's gradient", "zeros",
                  array_of({static_cast<Index>(gradients.size())}, gradients));
}

void cross_entropy_fwd_bwd(Case& c) {
  const Floats logits = read_logits(c);
  const std::vector<TokenId> targets = tokens_from(c.input.at("targets"));
  const auto ignore = static_cast<TokenId>(c.input.integer("ignore_index", kTorchIgnoreIndex));
  const CrossEntropyLoss loss = loss_of(c, ignore);
  Floats gradient(logits.shape);
  const LossSum sum =
      loss.forward_backward(c.run(), logits.matrix(), labels(targets),
                            scale_of(c, loss.counted(labels(targets))), gradient.matrix());
  c.require(sum.loss == loss.forward(c.run(), logits.matrix(), labels(targets)).loss,
            "the same loss with and without its gradient");
  c.check("loss", reduced(c, sum));
  c.check("dlogits", array_of(gradient));
}

// The targets that no class and no ignore_index explains, with the number of classes.
std::vector<std::string> bad_targets(const std::vector<TokenId>& targets, Index classes,
                                     TokenId ignore) {
  for (const TokenId id : targets) {
    if (id != ignore && (id < 0 || id >= classes))
      return {std::to_string(id), std::to_string(classes)};
  }
  return {};
}

void cross_entropy(Case& c) {
  const Floats logits = read_logits(c);
  const Index classes = logits.columns();
  const auto ignore = static_cast<TokenId>(c.input.integer("ignore_index", kTorchIgnoreIndex));
  const CrossEntropyLoss loss = loss_of(c, ignore);
  std::vector<std::vector<TokenId>> lists = {tokens_from(c.input.at("targets"))};
  if (const Json* also = c.input.find("also")) lists.push_back(tokens_from(*also));
  if (!c.promise("error").empty()) {
    for (const std::vector<TokenId>& targets : lists) {
      const auto words = bad_targets(targets, classes, ignore);
      if (words.empty()) throw BadCase("input.targets: expected one out of range, found none");
      c.require_error(
          "a target out of range", [&] { loss.forward(c.run(), logits.matrix(), labels(targets)); },
          words);
    }
    return;
  }
  for (const std::vector<TokenId>& targets : lists) {
    if (loss.counted(labels(targets)) == 0) nothing_counts(c, loss, logits, targets);
    if (!c.expected.has("loss")) continue;
    c.check("loss", reduced(c, loss.forward(c.run(), logits.matrix(), labels(targets))));
  }
  if (!c.expected.has("with_default_ignore_index")) return;
  const CrossEntropyLoss plain = loss_of(c, kTorchIgnoreIndex);
  const auto with_default = [&] {
    return reduced(c, plain.forward(c.run(), logits.matrix(), labels(lists[0])));
  };
  if (c.expected.at("with_default_ignore_index") == "error") {
    c.require_error("the default ignore_index", with_default,
                    bad_targets(lists[0], classes, kTorchIgnoreIndex));
  } else {
    c.check("with_default_ignore_index", with_default());
  }
}

// Micro-batches of one sequence each, the first of whose tokens count; their gradients together
// against those of one batch of all sequences.
void gradients_of_micro_batches(Case& c, const std::vector<Index>& tokens) {
  const Index time = std::max<Index>(2, *std::max_element(tokens.begin(), tokens.end()));
  SmallModel small({.vocab_size = 13, .block_size = time});
  std::vector<TokenId> inputs, targets;
  Index total = 0;
  for (std::size_t row = 0; row < tokens.size(); ++row) {
    for (Index t = 0; t < time; ++t) {
      const auto id = static_cast<TokenId>((7 * row + 3 * static_cast<std::size_t>(t)) % 13);
      inputs.push_back(id);
      targets.push_back(t < tokens[row] ? (id + 5) % 13 : -1);
    }
    total += tokens[row];
  }
  const double scale = 1.0 / static_cast<double>(total);
  const auto batch = static_cast<Index>(tokens.size());
  small.forward_backward(c.run(), inputs, targets, batch, scale);
  const std::vector<float> whole(small.gradients().begin(), small.gradients().end());
  small.forget_gradients();
  for (Index row = 0; row < batch; ++row) {
    const auto part = [&](const std::vector<TokenId>& all) {
      return std::vector<TokenId>(all.begin() + row * time, all.begin() + (row + 1) * time);
    };
    small.accumulate(c.run(), part(inputs), part(targets), 1, scale);
  }
  small.finish(c.run());
  const std::vector<float> parts(small.gradients().begin(), small.gradients().end());
  double largest = 0.0;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(parts[i]) - whole[i]));
  }
  c.require(largest <= tolerance::kMicroBatchGradient, "the gradient of one batch",
            std::to_string(largest) + " beside it");
  c.require(std::any_of(whole.begin(), whole.end(), [](float x) { return x != 0.0f; }),
            "a gradient that is not zero");
}

void accumulated_loss(Case& c) {
  LossSum sum;
  std::vector<Index> tokens;
  for (const Json& one : c.input.at("micro_batches")) {
    Fields part(one, "input.micro_batches");
    sum += {part.number("loss_sum"), part.integer("tokens")};
    tokens.push_back(part.integer("tokens"));
    for (const std::string& key : part.unread()) throw BadCase(key + ": not known");
  }
  c.check("loss", sum.mean());
  if (!c.promise("property").empty()) gradients_of_micro_batches(c, tokens);
}

// The mean over windows, whatever batches they come in; and the same of a model's own windows.
void eval_mean(Case& c) {
  const Array losses = *c.input.array("window_losses");
  const Index batch = c.input.integer("batch");
  const auto tokens_of = c.input.array("window_tokens");  // of each window; 1 where absent
  if (tokens_of && tokens_of->size() != losses.size()) {
    throw BadCase("input.window_tokens: expected one number for each window");
  }
  LossSum sum;
  for (Index begin = 0; begin < losses.size(); begin += batch) {
    LossSum part;
    for (Index i = begin; i < std::min(begin + batch, losses.size()); ++i) {
      const Index count = tokens_of ? static_cast<Index>((*tokens_of)[i]) : 1;
      part += {losses[i] * static_cast<double>(count), count};
    }
    sum += part;
  }
  c.check("mean", sum.mean());

  constexpr Index kTime = 5;
  SmallModel small({.vocab_size = 17, .block_size = kTime});
  const Index count = losses.size() * kTime - 2;  // the last window is short
  std::vector<TokenId> tokens;
  for (Index i = 0; i <= count; ++i) tokens.push_back(static_cast<TokenId>(i * i % 17));
  LossSum by_window;
  for (Index begin = 0; begin < count; begin += kTime) {
    const auto length = static_cast<std::size_t>(std::min(kTime, count - begin));
    const auto from = std::span(tokens).subspan(static_cast<std::size_t>(begin));
    by_window += small.evaluate(c.run(), from.first(length), from.subspan(1, length));
  }
  Gpt::Workspace work = small.model().make_workspace(batch, kTime);
  const double found = evaluate_windows(c.run(), small.model(), work, tokens,
                                        {.time = kTime, .batch = batch, .max_windows = 0})
                           .value();
  c.require(std::abs(found - by_window.mean()) <= tolerance::kDoubleSum * by_window.mean(),
            "the mean over all tokens of the windows", std::to_string(found));
}

}  // namespace

void add_loss_ops(Registry& ops) {
  ops["cross_entropy"] = cross_entropy;
  ops["cross_entropy_fwd_bwd"] = cross_entropy_fwd_bwd;
  ops["accumulated_loss"] = accumulated_loss;
  ops["eval_mean"] = eval_mean;
}

}  // namespace prenorm::cases
