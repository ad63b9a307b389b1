// The linear layer, weights [in, out] as in Hugging Face's GPT-2:
//
//   y = x W + b            y_no = Σ_i x_ni W_io + b_o
//
// The derivation of the backward pass is docs/derivations/linear.md.
#pragma once
#include "prenorm/reference/mistakes.h"
#include "prenorm/reference/numbers.h"
#include "prenorm/reference/tensor.h"

namespace prenorm::reference {

template <typename S>
struct LinearParameters {
  Tensor<S> weight = {};  // [in, out]
  Tensor<S> bias = {};    // [out], or absent: 0
};

struct LinearOptions {
  Numbers numbers = Numbers::kExact;  // of the result
  LinearMistakes mistakes = {};
};

// The matrix with rows and columns exchanged: torch.nn.Linear's [out, in] from [in, out] and back.
template <typename S>
Tensor<S> transposed(const Tensor<S>& w) {
  Tensor<S> out({w.columns(), w.rows()});
  for (Index i = 0; i < w.rows(); ++i) {
    for (Index j = 0; j < w.columns(); ++j) out(j, i) = w(i, j);
  }
  return out;
}

template <typename S>
void check_linear(const Tensor<S>& x, const LinearParameters<S>& p) {
  const Index out = p.weight.columns();
  check_shape("linear: weight", p.weight.shape(), {x.columns(), out});
  if (!p.bias.absent()) check_shape("linear: bias", p.bias.shape(), {out});
}

// x: [.., in]; returns [.., out]. Throws ShapeError.
template <typename S>
Tensor<S> linear(const Tensor<S>& x, const LinearParameters<S>& p,
                 const LinearOptions& options = {}) {
  if (options.mistakes.transposed) {
    LinearOptions rest = options;
    rest.mistakes.transposed = false;
    return linear(x, {transposed(p.weight), p.bias}, rest);
  }
  check_linear(x, p);
  const Index in = p.weight.rows(), out = p.weight.columns();
  Tensor<S> y(with_columns(x, out));
  for (Index n = 0; n < x.rows(); ++n) {
    S* y_n = y.row(n);
    for (Index i = 0; i < in; ++i) {
      const S x_ni = x(n, i);
      const S* w_i = p.weight.row(i);
      for (Index o = 0; o < out; ++o) y_n[o] += x_ni * w_i[o];
    }
    if (p.bias.absent() || options.mistakes.no_bias) continue;
    for (Index o = 0; o < out; ++o) y(n, o) += p.bias[o];
  }
  return rounded(std::move(y), options.numbers);
}

//   dx = dy Wᵀ      dW = xᵀ dy      db = Σ_n dy_n
template <typename S>
Gradients<S, LinearParameters<S>> linear_backward(const Tensor<S>& dy, const Tensor<S>& x,
                                                  const LinearParameters<S>& p,
                                                  const LinearOptions& options = {}) {
  require_no_mistake("linear", options.mistakes);
  check_linear(x, p);
  const Index in = p.weight.rows(), out = p.weight.columns();
  check_shape("linear: dy", dy.shape(), with_columns(x, out));
  Tensor<S> dx(x.shape());
  LinearParameters<S> dp{zeros_like(p.weight), zeros_like(p.bias)};
  for (Index n = 0; n < x.rows(); ++n) {
    const S* dy_n = dy.row(n);
    for (Index i = 0; i < in; ++i) {
      const S x_ni = x(n, i);
      const S* w_i = p.weight.row(i);
      S* dw_i = dp.weight.row(i);
      S dx_ni(0);
      for (Index o = 0; o < out; ++o) {
        dx_ni += dy_n[o] * w_i[o];
        dw_i[o] += x_ni * dy_n[o];
      }
      dx(n, i) = dx_ni;
    }
    if (p.bias.absent()) continue;
    for (Index o = 0; o < out; ++o) dp.bias[o] += dy(n, o);
  }
  return {std::move(dx), std::move(dp)};
}

}  // namespace prenorm::reference
