// A model of a few hundred parameters, the same every time, for behaviour that shows in any model.
//
//   SmallModel small({.vocab_size = 11, .block_size = 4});
//   small.forward_backward(run, inputs, targets, 1, 1.0);
#pragma once
#include <span>
#include <vector>

#include "prenorm/model/gpt.h"
#include "tests/cases/values.h"

namespace prenorm::cases {

class SmallModel {
 public:
  struct Options {
    Index vocab_size = 16, block_size = 8, n_layer = 2, n_head = 2, n_embd = 8;
    double dropout = 0.0;
    bool tie = true;
    double initializer_range = 0.3;  // so that no part is negligible
    std::uint64_t seed = 1;

    GptConfig config() const;
  };

  explicit SmallModel(const Options& options);
  Gpt& model() { return model_; }
  const Gpt& model() const { return model_; }
  std::span<float> gradients() { return model_.parameters().grads(); }
  std::span<float> values() { return model_.parameters().values(); }
  // The gradient of a parameter by its name without "transformer.".
  Array gradient(const std::string& name) const;
  void forget_gradients() { model_.parameters().zero_grad(); }

  // Gradients from zero. inputs, targets: [batch, T] in one row.
  LossSum forward_backward(const Runtime& run, const std::vector<TokenId>& inputs,
                           const std::vector<TokenId>& targets, Index batch, double scale,
                           const Gpt::DropoutPosition& dropout = {});
  // Adds to them; finish() after the last.
  LossSum accumulate(const Runtime& run, const std::vector<TokenId>& inputs,
                     const std::vector<TokenId>& targets, Index batch, double scale,
                     const Gpt::DropoutPosition& dropout = {});
  void finish(const Runtime& run);

  LossSum evaluate(const Runtime& run, std::span<const TokenId> inputs,
                   std::span<const TokenId> targets);
  std::vector<float> logits(const Runtime& run, std::span<const TokenId> tokens);  // [T, V]

 private:
  Gpt model_;
  Gpt::Workspace work_;
};

// A model's logits [T, V] of tokens, all at once.
std::vector<float> logits_of(const Runtime& run, const Gpt& model, std::span<const TokenId> tokens);
// The logits [V] after each chunk of tokens, with a key/value cache.
std::vector<std::vector<float>> logits_by_chunks(const Runtime& run, const Gpt& model,
                                                 const std::vector<std::vector<TokenId>>& chunks);

}  // namespace prenorm::cases
