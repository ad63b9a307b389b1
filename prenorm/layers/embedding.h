// Token and position embedding: x[b, t] = wte[tokens[b, t]] + wpe[first + t].
#pragma once
#include "prenorm/layers/layer.h"

namespace prenorm {

class Embedding {
 public:
  // Registers NAME.wte.weight [V, C] and NAME.wpe.weight [P, C].
  Embedding(ParameterRegistry& parameters, const std::string& name, Index vocabulary,
            Index positions, Index width);

  // tokens: [B, T]; x: [B·T, C]. Overwrites x. Throws ShapeError for an id outside [0, V) or a
  // position beyond P.
  void forward(const Runtime& run, TokenMatrix tokens, Index first_position, Matrix x) const;

  // Adds dx's rows [B·T, C] to wpe's gradient, and to `token_sums` [V, C] or, where that is empty,
  // to wte's gradient.
  void backward(const Runtime& run, TokenMatrix tokens, ConstMatrix dx, Matrix token_sums = {});

  // wte: the head's weight where the two are tied.
  Parameter& token_weight() { return token_weight_; }

 private:
  Parameter& token_weight_;     // [V, C]
  Parameter& position_weight_;  // [P, C]
};

}  // namespace prenorm
