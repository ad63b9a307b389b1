#include "prenorm/model/activation_names.h"

#include <algorithm>
#include <array>

namespace prenorm {
namespace {

struct Entry {
  std::string_view name;
  Activation activation;
};

// The first of each activation is the one written.
constexpr std::array kNames = {
    Entry{"relu", Activation::kRelu},          Entry{"gelu", Activation::kGelu},
    Entry{"gelu_python", Activation::kGelu},   Entry{"gelu_new", Activation::kGeluTanh},
    Entry{"gelu_fast", Activation::kGeluTanh}, Entry{"gelu_pytorch_tanh", Activation::kGeluTanh},
};

}  // namespace

std::optional<Activation> activation_from_hugging_face(std::string_view name) {
  const auto* it = std::ranges::find(kNames, name, &Entry::name);
  return it == kNames.end() ? std::nullopt : std::optional(it->activation);
}

std::string_view hugging_face_activation(Activation activation) {
  return std::ranges::find(kNames, activation, &Entry::activation)->name;
}

}  // namespace prenorm
