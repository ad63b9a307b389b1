// The activations of the feed-forward network, elementwise:
//
//   relu(x)       = max(x, 0)
//   gelu(x)       = x Φ(x) = x (1 + erf(x/√2)) / 2                 (Hendrycks, Gimpel 2016)
//   gelu_tanh(x)  = x (1 + tanh u) / 2,  u = √(2/π) (x + 0.044715 x³)
//   gelu_quick(x) = x sigmoid(1.702 x)
//
// Written with erfc and sigmoid, which are equal to the above and keep the far negative tail, where
// 1 + erf and 1 + tanh cancel: 1 + erf(z) = erfc(−z), (1 + tanh u)/2 = sigmoid(2 u).
// The derivatives are derived in docs/derivations/activation.md.
#pragma once
#include <cmath>
#include <string_view>

#include "prenorm/reference/numbers.h"
#include "prenorm/reference/tensor.h"

namespace prenorm::reference {

enum class Activation { kRelu, kGelu, kGeluTanh, kGeluQuick };

struct ActivationOptions {
  Activation kind = Activation::kGeluTanh;
  Numbers input_numbers = Numbers::kExact;  // a GELU looked up in a table of half floats rounds x
  Numbers numbers = Numbers::kExact;        // of the result
};

// 1 / (1 + e^−z), with no overflow on either side.
template <typename S>
S sigmoid(const S& z) {
  using std::exp;
  if (z < S(0)) return exp(z) / (S(1) + exp(z));
  return S(1) / (S(1) + exp(-z));
}

// Φ(x), the normal distribution function.
template <typename S>
S normal_cdf(const S& x) {
  using std::erfc;
  return S(0.5) * erfc(-x * S(0.707106781186547524400844362104849039L));
}

// φ(x), its density: exp(−x²/2) / √(2π).
template <typename S>
S normal_density(const S& x) {
  using std::exp;
  return S(0.398942280401432677939946059934381868L) * exp(S(-0.5) * x * x);
}

// 2 u = 2 √(2/π) (x + 0.044715 x³), and its derivative.
template <typename S>
S gelu_tanh_argument(const S& x) {
  return S(1.59576912160573071175978423973752747L) * (x + S(0.044715) * x * x * x);
}
template <typename S>
S gelu_tanh_argument_slope(const S& x) {
  return S(1.59576912160573071175978423973752747L) * (S(1) + S(0.134145) * x * x);
}

template <typename S>
S activate(Activation kind, const S& x) {
  switch (kind) {
    case Activation::kRelu:
      return x > S(0) || x != x ? x : S(0);  // a NaN stays one
    case Activation::kGelu:
      return x * normal_cdf(x);
    case Activation::kGeluTanh:
      return x * sigmoid(gelu_tanh_argument(x));
    case Activation::kGeluQuick:
      return x * sigmoid(S(1.702) * x);
  }
  return x;
}

// act'(x). relu'(0) is 0, as in PyTorch.
template <typename S>
S activation_slope(Activation kind, const S& x) {
  // d/dx x s(a(x)) = s + x s (1 − s) a'
  const auto gated = [&x](const S& a, const S& a_slope) {
    const S s = sigmoid(a), s_of_minus = sigmoid(-a);
    // Far out s' is zero whatever a' is, and must not meet an infinite one.
    const S s_slope = s * s_of_minus;
    return s_slope == S(0) ? s : s + x * s_slope * a_slope;
  };
  switch (kind) {
    case Activation::kRelu:
      return x > S(0) ? S(1) : S(0);
    case Activation::kGelu:
      return normal_cdf(x) + x * normal_density(x);
    case Activation::kGeluTanh:
      return gated(gelu_tanh_argument(x), gelu_tanh_argument_slope(x));
    case Activation::kGeluQuick:
      return gated(S(1.702) * x, S(1.702));
  }
  return S(1);
}

template <typename S>
Tensor<S> activation(const Tensor<S>& x, const ActivationOptions& options = {}) {
  Tensor<S> y(x.shape());
  for (Index i = 0; i < x.size(); ++i) {
    y[i] = rounded(activate(options.kind, rounded(x[i], options.input_numbers)), options.numbers);
  }
  return y;
}

// dx = dy ⊙ act'(x)
template <typename S>
Tensor<S> activation_backward(const Tensor<S>& dy, const Tensor<S>& x,
                              const ActivationOptions& options = {}) {
  check_shape("activation: dy", dy.shape(), x.shape());
  Tensor<S> dx(x.shape());
  for (Index i = 0; i < x.size(); ++i) dx[i] = dy[i] * activation_slope(options.kind, x[i]);
  return dx;
}

}  // namespace prenorm::reference
