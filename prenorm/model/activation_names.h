// The activations by the names of Hugging Face's configurations.
#pragma once
#include <optional>
#include <string_view>

#include "prenorm/kernels/activation.h"

namespace prenorm {

// "gelu_new", "gelu_pytorch_tanh", … Empty for a name that is not ours to compute.
std::optional<Activation> activation_from_hugging_face(std::string_view name);
// The name that is written: "relu", "gelu", "gelu_new".
std::string_view hugging_face_activation(Activation activation);

}  // namespace prenorm
