#include "prenorm/model/parameter_names.h"

#include <vector>

namespace prenorm {
namespace {

using Axis = ParameterAxis;
constexpr std::array<Axis, 2> kC = {Axis::kWidth, Axis::kNone};
constexpr std::array<Axis, 2> k3C = {Axis::kThreeWidths, Axis::kNone};
constexpr std::array<Axis, 2> kF = {Axis::kInner, Axis::kNone};
constexpr std::array<Axis, 2> kCC = {Axis::kWidth, Axis::kWidth};
constexpr std::array<Axis, 2> kC3C = {Axis::kWidth, Axis::kThreeWidths};
constexpr std::array<Axis, 2> k3CC = {Axis::kThreeWidths, Axis::kWidth};
constexpr std::array<Axis, 2> kCF = {Axis::kWidth, Axis::kInner};
constexpr std::array<Axis, 2> kFC = {Axis::kInner, Axis::kWidth};
constexpr std::array<Axis, 2> kAny = {Axis::kAny, Axis::kNone};

constexpr ParameterName optional(std::string_view name, std::string_view parameter,
                                 std::array<Axis, 2> axes) {
  return {name, parameter, axes, false, false};
}
constexpr ParameterName weight(std::string_view name, std::string_view parameter,
                               std::array<Axis, 2> axes) {
  return {name, parameter, axes};
}
constexpr ParameterName transposed(std::string_view name, std::string_view parameter,
                                   std::array<Axis, 2> axes) {
  return {name, parameter, axes, true};
}
constexpr ParameterName part(std::string_view name, int which) {
  return {name, "attn.c_attn.weight", kCC, true, false, false, which};
}
constexpr ParameterName packed(ParameterName name) {
  name.parts_instead = true;
  return name;
}

// torch.nn.TransformerEncoderLayer, and the layers that it is made of.
constexpr std::array kTorchBlock = {
    packed(transposed("self_attn.in_proj_weight", "attn.c_attn.weight", k3CC)),
    part("self_attn.q_proj_weight", 0),
    part("self_attn.k_proj_weight", 1),
    part("self_attn.v_proj_weight", 2),
    optional("self_attn.in_proj_bias", "attn.c_attn.bias", k3C),
    transposed("self_attn.out_proj.weight", "attn.c_proj.weight", kCC),
    optional("self_attn.out_proj.bias", "attn.c_proj.bias", kC),
    transposed("linear1.weight", "mlp.c_fc.weight", kFC),
    optional("linear1.bias", "mlp.c_fc.bias", kF),
    transposed("linear2.weight", "mlp.c_proj.weight", kCF),
    optional("linear2.bias", "mlp.c_proj.bias", kC),
    optional("norm1.weight", "ln_1.weight", kC),
    optional("norm1.bias", "ln_1.bias", kC),
    optional("norm2.weight", "ln_2.weight", kC),
    optional("norm2.bias", "ln_2.bias", kC),
};
constexpr std::array kTorchFinal = {
    optional("norm.weight", "ln_f.weight", kC),
    optional("norm.bias", "ln_f.bias", kC),
};

// transformers.GPT2Model's block. The mask buffers are those of files of older versions.
constexpr std::array kGpt2Block = {
    optional("ln_1.weight", "ln_1.weight", kC),
    optional("ln_1.bias", "ln_1.bias", kC),
    weight("attn.c_attn.weight", "attn.c_attn.weight", kC3C),
    optional("attn.c_attn.bias", "attn.c_attn.bias", k3C),
    weight("attn.c_proj.weight", "attn.c_proj.weight", kCC),
    optional("attn.c_proj.bias", "attn.c_proj.bias", kC),
    optional("ln_2.weight", "ln_2.weight", kC),
    optional("ln_2.bias", "ln_2.bias", kC),
    weight("mlp.c_fc.weight", "mlp.c_fc.weight", kCF),
    optional("mlp.c_fc.bias", "mlp.c_fc.bias", kF),
    weight("mlp.c_proj.weight", "mlp.c_proj.weight", kFC),
    optional("mlp.c_proj.bias", "mlp.c_proj.bias", kC),
    optional("attn.bias", "", kAny),
    optional("attn.masked_bias", "", kAny),
};
constexpr std::array kGpt2Final = {
    optional("ln_f.weight", "ln_f.weight", kC),
    optional("ln_f.bias", "ln_f.bias", kC),
};

// torch.nn.Sequential(Linear, activation, Linear).
constexpr std::array kSequentialFeedForward = {
    transposed("0.weight", "mlp.c_fc.weight", kFC),
    optional("0.bias", "mlp.c_fc.bias", kF),
    transposed("2.weight", "mlp.c_proj.weight", kCF),
    optional("2.bias", "mlp.c_proj.bias", kC),
};

constexpr std::array kLayerNorm = {
    optional("weight", "ln.weight", kAny),
    optional("bias", "ln.bias", kAny),
};
constexpr std::array kTorchLinear = {
    transposed("weight", "linear.weight", kFC),
    optional("bias", "linear.bias", kF),
};
constexpr std::array kEmbedding = {
    weight("weight", "wte.weight", kFC),
};

using Names = std::vector<ParameterName>;

// The names of a part of a block, by our prefix of its parameters, without theirs.
Names part_of(std::span<const ParameterName> block, std::string_view ours,
              std::string_view theirs) {
  Names names;
  for (ParameterName name : block) {
    const bool buffer = name.parameter.empty() && name.name.starts_with(ours);
    if (!name.parameter.starts_with(ours) && !buffer) continue;
    if (name.name.starts_with(theirs)) name.name.remove_prefix(theirs.size());
    names.push_back(name);
  }
  return names;
}

Names block_with(std::span<const ParameterName> block, std::span<const ParameterName> rest) {
  Names names(block.begin(), block.end());
  for (ParameterName& name : names) name.in_layer = true;
  names.insert(names.end(), rest.begin(), rest.end());
  return names;
}

Names make_torch(LayerKind kind) {
  switch (kind) {
    case LayerKind::kFeedForward:
      return part_of(kTorchBlock, "mlp.", "");
    case LayerKind::kAttention:
      return part_of(kTorchBlock, "attn.", "self_attn.");
    case LayerKind::kBlock:
      return block_with(kTorchBlock, {});
    case LayerKind::kStack:
      return block_with(kTorchBlock, kTorchFinal);
    case LayerKind::kLayerNorm:
      return Names(kLayerNorm.begin(), kLayerNorm.end());
    case LayerKind::kLinear:
      return Names(kTorchLinear.begin(), kTorchLinear.end());
    case LayerKind::kEmbedding:
      return Names(kEmbedding.begin(), kEmbedding.end());
  }
  return {};
}

Names make_gpt2(LayerKind kind) {
  switch (kind) {
    case LayerKind::kFeedForward:
      return part_of(kGpt2Block, "mlp.", "mlp.");
    case LayerKind::kAttention:
      return part_of(kGpt2Block, "attn.", "attn.");
    case LayerKind::kBlock:
      return block_with(kGpt2Block, {});
    case LayerKind::kStack:
      return block_with(kGpt2Block, kGpt2Final);
    default:
      return {};
  }
}

constexpr std::array kKindNames = {"layer-norm", "linear", "embedding", "feed-forward",
                                   "attention",  "block",  "stack"};

}  // namespace

std::string_view layer_kind_name(LayerKind kind) {
  return kKindNames[static_cast<std::size_t>(kind)];
}

std::span<const ParameterName> parameter_names(LayerKind kind, NameStyle style) {
  struct Table {
    std::array<Names, kKindNames.size()> torch, gpt2;
  };
  static const Table table = [] {
    Table made;
    for (std::size_t k = 0; k < kKindNames.size(); ++k) {
      made.torch[k] = make_torch(static_cast<LayerKind>(k));
      made.gpt2[k] = make_gpt2(static_cast<LayerKind>(k));
    }
    return made;
  }();
  const auto k = static_cast<std::size_t>(kind);
  if (style == NameStyle::kTorch) return table.torch[k];
  if (style == NameStyle::kGpt2) return table.gpt2[k];
  return kind == LayerKind::kFeedForward ? std::span<const ParameterName>(kSequentialFeedForward)
                                         : std::span<const ParameterName>();
}

std::string_view layer_prefix(NameStyle style) {
  return style == NameStyle::kGpt2 ? "h." : "layers.";
}

}  // namespace prenorm
