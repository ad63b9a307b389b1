// Token and position embedding:
//
//   x[b, t] = wte[token[b, t]] + wpe[t]
//
// The derivation of the backward pass is docs/derivations/embedding.md.
#pragma once
#include "prenorm/reference/numbers.h"
#include "prenorm/reference/tensor.h"

namespace prenorm::reference {

// Tokens [B, T].
using Tokens = Tensor<TokenId>;

template <typename S>
struct EmbeddingParameters {
  Tensor<S> wte = {};  // [V, C]
  Tensor<S> wpe = {};  // [P, C], P the longest context
};

// Throws ShapeError for a sequence longer than the context, DataError for a token out of range.
template <typename S>
void check_embedding(const Tokens& tokens, const EmbeddingParameters<S>& p, Index offset) {
  if (tokens.rank() != 2) {
    throw ShapeError("embedding: tokens: expected [B, T], found " + shape_text(tokens.shape()));
  }
  check_shape("embedding: wpe", p.wpe.shape(), {p.wpe.rows(), p.wte.columns()});
  if (tokens.dim(1) + offset > p.wpe.rows()) {
    throw ShapeError("embedding: expected at most " + std::to_string(p.wpe.rows()) +
                     " positions, found " + std::to_string(tokens.dim(1) + offset));
  }
  for (const TokenId token : tokens) {
    if (token < 0 || token >= p.wte.rows()) {
      throw DataError("embedding: token: expected 0 to " + std::to_string(p.wte.rows() - 1) +
                      ", found " + std::to_string(token));
    }
  }
}

// Returns [B, T, C]. `offset` is the position of the first token: 0 but for a mistake.
template <typename S>
Tensor<S> embedding(const Tokens& tokens, const EmbeddingParameters<S>& p, Index offset = 0,
                    Numbers numbers = Numbers::kExact) {
  check_embedding(tokens, p, offset);
  const Index time = tokens.dim(1), width = p.wte.columns();
  Tensor<S> x({tokens.dim(0), time, width});
  for (Index n = 0; n < tokens.size(); ++n) {
    for (Index c = 0; c < width; ++c) x(n, c) = p.wte(tokens[n], c) + p.wpe(n % time + offset, c);
  }
  return rounded(std::move(x), numbers);
}

// dwte[v] = Σ dx over the places where token v stands; dwpe[t] = Σ_b dx[b, t].
template <typename S>
EmbeddingParameters<S> embedding_backward(const Tensor<S>& dx, const Tokens& tokens,
                                          const EmbeddingParameters<S>& p) {
  check_embedding(tokens, p, 0);
  const Index time = tokens.dim(1), width = p.wte.columns();
  check_shape("embedding: dx", dx.shape(), {tokens.dim(0), time, width});
  EmbeddingParameters<S> dp{zeros_like(p.wte), zeros_like(p.wpe)};
  for (Index n = 0; n < tokens.size(); ++n) {
    for (Index c = 0; c < width; ++c) {
      dp.wte(tokens[n], c) += dx(n, c);
      dp.wpe(n % time, c) += dx(n, c);
    }
  }
  return dp;
}

}  // namespace prenorm::reference
