#include "prenorm/layers/embedding.h"

#include <fmt/format.h>

#include "prenorm/kernels/embedding.h"

namespace prenorm {

Embedding::Embedding(ParameterRegistry& parameters, const std::string& name, Index vocabulary,
                     Index positions, Index width)
    : token_weight_(parameters.add(name + ".wte.weight", {vocabulary, width}, true)),
      position_weight_(parameters.add(name + ".wpe.weight", {positions, width}, true)) {}

void Embedding::forward(const Runtime& run, TokenMatrix tokens, Index first_position,
                        Matrix x) const {
  const Index vocabulary = token_weight_.shape[0], positions = position_weight_.shape[0];
  if (first_position + tokens.dim(1) > positions) {
    throw ShapeError(fmt::format("Embedding 'wpe': expected at most {} positions, found {}",
                                 positions, first_position + tokens.dim(1)));
  }
  for (Index b = 0; b < tokens.dim(0); ++b) {
    for (Index t = 0; t < tokens.dim(1); ++t) {
      const TokenId id = tokens[b][t];
      if (id < 0 || id >= vocabulary) {
        throw ShapeError(
            fmt::format("Embedding 'wte': expected token ids in [0, {}), found {} at [{}, {}]",
                        vocabulary, id, b, t));
      }
    }
  }
  check_shape("Embedding", "wte", "x", x, tokens.dim(0) * tokens.dim(1), token_weight_.shape[1]);
  kernels::embedding_forward(run, tokens, token_weight_.matrix(), position_weight_.matrix(),
                             first_position, x);
}

void Embedding::backward(const Runtime& run, TokenMatrix tokens, ConstMatrix dx,
                         Matrix token_sums) {
  kernels::embedding_backward(run, tokens, dx,
                              token_sums ? token_sums : token_weight_.grad_matrix(),
                              position_weight_.grad_matrix());
}

}  // namespace prenorm
