// The feed-forward network's activation functions, elementwise.
//   relu(x)      = max(x, 0)
//   gelu(x)      = x Φ(x) = x (1 + erf(x / √2)) / 2          (Hendrycks, Gimpel 2016)
//   gelu-tanh(x) = x (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2
#pragma once
#include <optional>
#include <span>
#include <string_view>

#include "prenorm/kernels/runtime.h"
#include "prenorm/tensor/view.h"

namespace prenorm {

enum class Activation { kRelu, kGelu, kGeluTanh };

// "relu", "gelu", "gelu-tanh" (our flags); Hugging Face's "gelu_new" and "gelu_pytorch_tanh" are
// read as gelu-tanh.
std::string_view activation_name(Activation activation);
std::optional<Activation> activation_from_name(std::string_view name);
// All names of our flags, in the enum's order.
std::span<const std::string_view> activation_names();

namespace kernels {

// y = act(x). x, y: [N, F]; may alias. Overwrites y.
void activation_forward(const Runtime& run, Activation act, ConstMatrix x, Matrix y);

// dx = dy * act'(x). dy, x, dx: [N, F]; dx may alias dy. Overwrites dx.
void activation_backward(const Runtime& run, Activation act, ConstMatrix dy, ConstMatrix x,
                         Matrix dx);

}  // namespace kernels
}  // namespace prenorm
