// Small random passes through each layer, for the tests of the two ways to compute them.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "prenorm/reference/adjoint.h"
#include "prenorm/study/layer_pass.h"

namespace prenorm {

using reference::random_tensor;

inline LayerPass small_pass(ApplyLayer layer) {
  LayerPass pass;
  pass.layer = layer;
  pass.options.heads = 3;
  std::uint64_t seed = 40;
  const auto random = [&](const std::vector<Index>& shape) { return random_tensor(shape, ++seed); };
  const auto add = [&](const std::string& name, const std::vector<Index>& shape) {
    pass.parameters[name] = random(shape);
  };
  const auto add_linear = [&](const std::string& name, Index in, Index out) {
    add(name + ".weight", {in, out});
    add(name + ".bias", {out});
  };
  const auto add_norm = [&](const std::string& name) {
    add(name + ".weight", {6});
    add(name + ".bias", {6});
  };
  const bool sequences = layer == ApplyLayer::kAttention || layer == ApplyLayer::kBlock ||
                         layer == ApplyLayer::kStack ||
                         layer == ApplyLayer::kScaledDotProductAttention;
  pass.input = random(sequences ? std::vector<Index>{2, 5, 6} : std::vector<Index>{10, 6});
  pass.grad_output = random(pass.input.shape());
  switch (layer) {
    case ApplyLayer::kLayerNorm:
      add_norm("ln");
      break;
    case ApplyLayer::kLinear:
      add_linear("linear", 6, 4);
      pass.grad_output = random({10, 4});
      break;
    case ApplyLayer::kFeedForward:
      add_linear("mlp.c_fc", 6, 9);
      add_linear("mlp.c_proj", 9, 6);
      break;
    case ApplyLayer::kAttention:
      add_linear("attn.c_attn", 6, 18);
      add_linear("attn.c_proj", 6, 6);
      break;
    case ApplyLayer::kBlock:
    case ApplyLayer::kStack:
      pass.layers = layer == ApplyLayer::kStack ? 2 : 1;
      for (Index l = 0; l < pass.layers; ++l) {
        const std::string h = "h." + std::to_string(l) + ".";
        add_norm(h + "ln_1");
        add_linear(h + "attn.c_attn", 6, 18);
        add_linear(h + "attn.c_proj", 6, 6);
        add_norm(h + "ln_2");
        add_linear(h + "mlp.c_fc", 6, 9);
        add_linear(h + "mlp.c_proj", 9, 6);
      }
      if (layer == ApplyLayer::kStack) add_norm("ln_f");
      break;
    case ApplyLayer::kScaledDotProductAttention:
      pass.key = random({2, 7, 6});
      pass.value = random({2, 7, 8});
      pass.grad_output = random({2, 5, 8});
      break;
    case ApplyLayer::kEmbedding:
      add("wte.weight", {4, 6});
      pass.input = {};
      pass.ids = {3, 1, 3, 0};
      pass.grad_output = random({4, 6});
      break;
    case ApplyLayer::kCrossEntropy:
      pass.ids = {3, 1, -1, 0, 5, 5, 2, 1, 4, -1};
      pass.grad_output = random({10});
      break;
    default:
      break;
  }
  return pass;
}

// Every layer that takes a pass, and some of their options.
inline std::vector<std::pair<std::string, LayerPass>> small_passes() {
  std::vector<std::pair<std::string, LayerPass>> passes;
  const auto names = apply_layer_names();
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto layer = static_cast<ApplyLayer>(i);
    if (layer != ApplyLayer::kGpt) passes.emplace_back(names[i], small_pass(layer));
  }
  LayerPass cross = small_pass(ApplyLayer::kAttention);
  cross.key = random_tensor({2, 4, 6}, 90);
  cross.value = random_tensor({2, 4, 6}, 91);
  passes.emplace_back("cross-attention", cross);
  LayerPass masked = small_pass(ApplyLayer::kStack);
  masked.options.norm = NormPlacement::kPost;
  masked.options.activation = Activation::kRelu;
  masked.options.causal = false;
  masked.mask.added = random_tensor({2, 3, 5, 5}, 92);
  masked.mask.key_padding =
      reference::Tensor<unsigned char>({2, 5}, {0, 0, 1, 0, 0, 1, 0, 0, 0, 0});
  passes.emplace_back("post-norm stack with masks", masked);
  for (const ApplyLayer layer : {ApplyLayer::kAttention, ApplyLayer::kStack}) {
    LayerPass scaled = small_pass(layer);
    scaled.options.scale = 0.9;
    if (layer == ApplyLayer::kStack) scaled.scales = {0.7, 1.1};
    passes.emplace_back("scores scaled otherwise", scaled);
  }
  LayerPass no_biases = small_pass(ApplyLayer::kBlock);
  std::erase_if(no_biases.parameters, [](const auto& p) {
    return p.first.ends_with("bias") || p.first.ends_with("ln_1.weight");
  });
  passes.emplace_back("block without biases", no_biases);
  LayerPass smoothed = small_pass(ApplyLayer::kCrossEntropy);
  smoothed.options.label_smoothing = 0.2;
  passes.emplace_back("smoothed cross-entropy", smoothed);
  return passes;
}

}  // namespace prenorm
