// One layer, block or model applied to tensors from files, with its gradients: the seam through
// which other programs compare themselves with this one.
//
//   const TensorFile parameters = read_tensors("block.safetensors");   // PyTorch's or GPT-2's
//   names const TensorFile inputs = read_tensors("inputs.safetensors");      // input, grad_output,
//   … const auto outputs = apply(run, ApplyLayer::kBlock, {.heads = 4}, &parameters, inputs);
//
// The tensors in `inputs`, and what comes back, by layer ([..] any axes, also none):
//
//   layer-norm, activation, softmax        input [.., C]
//   linear                                 input [.., C]
//   feed-forward                           input [.., C]
//   attention                              input [B, T, C] or [T, C]; optional key and value
//   block, stack                             [B, S, C], attn_mask, key_padding_mask
//   scaled-dot-product-attention           query [.., T, D], key [.., S, D], value [.., S, E],
//                                            optional attn_mask
//   embedding                              input_ids [..]
//   cross-entropy                          input [N, V], [V] or [N, V, ..], targets [N], [] or
//                                            [N, ..]
//   gpt                                    input_ids [B, T] or [T]; optional targets, attn_mask,
//                                            key_padding_mask
//
// give `output` (gpt: `logits`, and `loss`). With `grad_output` of the output's shape (gpt:
// `targets`, or `grad_output` of the logits), `grad.NAME` of every floating-point input and of
// every parameter, under its own name and in its own layout. What a mask means is told in
// attention_masks.h.
//
// A number that is not finite is computed with like any other and passes on as in PyTorch.
#pragma once
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "prenorm/formats/tensor_file.h"
#include "prenorm/kernels/runtime.h"
#include "prenorm/layers/transformer_block.h"

namespace prenorm {

enum class ApplyLayer {
  kLayerNorm,
  kFeedForward,
  kAttention,
  kBlock,
  kStack,
  kGpt,
  kLinear,
  kActivation,
  kSoftmax,
  kScaledDotProductAttention,
  kEmbedding,
  kCrossEntropy,
};

// All names, in the enum's order: "layer-norm", …
std::span<const std::string_view> apply_layer_names();
std::optional<ApplyLayer> apply_layer_from_name(std::string_view name);

enum class LossReduction { kMean, kSum, kNone };

struct ApplyOptions {
  Index heads = 0;  // of attention, block and stack, which need it
  NormPlacement norm = NormPlacement::kPre;
  Activation activation = Activation::kGeluTanh;
  double eps = 1e-5;
  bool causal = true;           // query t sees the keys s ≤ t
  std::optional<double> scale;  // of attention's scores; 1/√D unless given
  Index axis = -1;              // of softmax
  Index normalized_axes = 0;    // of layer-norm: the last so many; 0: those of the weight, or one
  Index ignore_index = -100;    // of cross-entropy
  double label_smoothing = 0.0;
  LossReduction reduction = LossReduction::kMean;
  std::optional<Index> padding_idx;  // of embedding: its row gets no gradient
  bool reference = false;            // the textbook in double, and F64 tensors
};

// `parameters` is null for a layer without. Throws FormatError naming the tensor that is missing,
// unexpected, or of another shape or type; ConfigError for an option.
// Requires: layer is not kGpt.
std::vector<Tensor> apply(const Runtime& run, ApplyLayer layer, const ApplyOptions& options,
                          const TensorFile* parameters, const TensorFile& inputs);

// The model in a folder (checkpoint.h). Of the options, `reference` counts. Targets of −1 and −100
// are ignored; the loss is the mean over the others.
std::vector<Tensor> apply_gpt(const Runtime& run, const ApplyOptions& options,
                              const std::filesystem::path& folder, const TensorFile& inputs);

}  // namespace prenorm
