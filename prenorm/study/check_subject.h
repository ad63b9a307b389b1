// What the property checks find, and how they reach the model that they check.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "prenorm/model/gpt.h"
#include "prenorm/study/layer_pass.h"

namespace prenorm {

// A property with the figure that was measured of it.
struct Property {
  std::string name;     // "causality"
  std::string claim;    // "outputs before a token do not move when it does"
  std::string measure;  // what the figure is: "numbers that moved", "relative error"
  double measured = 0.0, bound = 0.0;
  std::string scope;     // what it was measured on
  bool vacuous = false;  // nothing was there to measure: it proves nothing and does not pass

  // A NaN does not pass.
  bool passed() const { return !vacuous && measured <= bound; }
};

// The passes whose properties are checked. They are the model's own unless a test puts a defect in
// between, to see that the check finds it.
struct CheckSeams {
  std::function<void(const Runtime&, const Gpt&, Gpt::Workspace&, TokenMatrix, Matrix)> logits;
  std::function<void(const Runtime&, const Gpt&, Gpt::Cache&, TokenMatrix, Matrix)> decode;
  // A block, norm, attention or feed-forward network with its gradients.
  std::function<LayerOutcome(const Runtime&, const LayerPass&)> layer;
  // Adds the gradients of Σ loss to those of the model's parameters.
  std::function<LossSum(const Runtime&, Gpt&, Gpt::Workspace&, const TokenBatch&)> gradients;

  CheckSeams();
};

// What the parts of a check are given.
struct CheckContext {
  const Runtime& run;
  const Gpt& model;
  const CheckSeams& seams;
  std::uint64_t seed = 1;
  // Told what comes next, e.g. "block 3 of 12"; may be empty.
  std::function<void(std::string_view)> on_stage = {};

  void stage(std::string_view what) const {
    if (on_stage) on_stage(what);
  }
};

// "1 token", "8 tokens".
std::string counted(Index count, std::string_view noun);

// `count` token ids, a function of the seed.
std::vector<TokenId> random_tokens(Index count, Index vocab_size, std::uint64_t seed);

// Counts numbers that are not the same bit for bit.
class BitDifference {
 public:
  void compare(ConstMatrix a, ConstMatrix b);
  Index differing() const { return differing_; }
  Index compared() const { return compared_; }

 private:
  Index differing_ = 0, compared_ = 0;
};

}  // namespace prenorm
