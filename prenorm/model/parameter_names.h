// The names under which PyTorch and Hugging Face's GPT-2 keep the parameters of a layer, beside
// ours: the table that parameter_layout.h reads.
#pragma once
#include <array>
#include <span>
#include <string_view>

namespace prenorm {

enum class LayerKind {
  kLayerNorm,    // ln.*: weight and bias of any shape, here [C]
  kLinear,       // linear.*: weight [C, F]
  kEmbedding,    // wte.weight: [F, C]
  kFeedForward,  // mlp.*
  kAttention,    // attn.*
  kBlock,        // h.0.*
  kStack,        // h.N.*, ln_f.*
};

// "layer-norm", "block"
std::string_view layer_kind_name(LayerKind kind);

enum class NameStyle { kTorch, kGpt2, kSequential };
inline constexpr std::array kNameStyles = {NameStyle::kTorch, NameStyle::kGpt2,
                                           NameStyle::kSequential};

// A size of a tensor: C, 3 C, or F (a linear layer's outputs, a vocabulary); kAny stands for a
// shape that the input decides.
enum class ParameterAxis { kNone, kWidth, kThreeWidths, kInner, kAny };

struct ParameterName {
  std::string_view name;       // in the file
  std::string_view parameter;  // ours; empty: passed over
  std::array<ParameterAxis, 2> axes;
  bool transposed = false;  // the file has [out, in]
  bool required = true;
  bool in_layer = false;       // of a block, and so of every layer of a stack
  int part = -1;               // 0, 1, 2: the q, k or v third of the parameter
  bool parts_instead = false;  // three parts may stand in its place
};

// The names of a layer that stands alone. Empty where the style has no such layer.
std::span<const ParameterName> parameter_names(LayerKind kind, NameStyle style);

// What a layer's number follows in a stack: "layers.", "h.".
std::string_view layer_prefix(NameStyle style);

}  // namespace prenorm
