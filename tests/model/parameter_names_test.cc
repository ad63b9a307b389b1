#include "prenorm/model/parameter_names.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace prenorm {
namespace {

std::set<std::string> names_of(LayerKind kind, NameStyle style) {
  std::set<std::string> names;
  for (const ParameterName& name : parameter_names(kind, style))
    names.insert(std::string(name.name));
  return names;
}

TEST(ParameterNames, a_layer_alone_has_its_names_in_a_block_without_the_modules) {
  EXPECT_EQ(
      names_of(LayerKind::kAttention, NameStyle::kTorch),
      (std::set<std::string>{"in_proj_weight", "in_proj_bias", "q_proj_weight", "k_proj_weight",
                             "v_proj_weight", "out_proj.weight", "out_proj.bias"}));
  EXPECT_EQ(names_of(LayerKind::kAttention, NameStyle::kGpt2),
            (std::set<std::string>{"c_attn.weight", "c_attn.bias", "c_proj.weight", "c_proj.bias",
                                   "bias", "masked_bias"}));
  EXPECT_EQ(
      names_of(LayerKind::kFeedForward, NameStyle::kTorch),
      (std::set<std::string>{"linear1.weight", "linear1.bias", "linear2.weight", "linear2.bias"}));
  EXPECT_EQ(names_of(LayerKind::kFeedForward, NameStyle::kGpt2),
            (std::set<std::string>{"c_fc.weight", "c_fc.bias", "c_proj.weight", "c_proj.bias"}));
  EXPECT_EQ(names_of(LayerKind::kFeedForward, NameStyle::kSequential),
            (std::set<std::string>{"0.weight", "0.bias", "2.weight", "2.bias"}));
}

TEST(ParameterNames, both_styles_of_a_block_name_the_same_parameters) {
  for (const LayerKind kind : {LayerKind::kBlock, LayerKind::kStack}) {
    std::set<std::string> torch, gpt2;
    for (const ParameterName& n : parameter_names(kind, NameStyle::kTorch)) {
      torch.insert(std::string(n.parameter));
    }
    for (const ParameterName& n : parameter_names(kind, NameStyle::kGpt2)) {
      if (!n.parameter.empty()) gpt2.insert(std::string(n.parameter));
    }
    EXPECT_EQ(torch, gpt2);
    EXPECT_EQ(torch.size(), kind == LayerKind::kBlock ? 12u : 14u);
  }
}

TEST(ParameterNames, what_has_two_axes_is_required_and_what_has_one_is_not) {
  for (const NameStyle style : kNameStyles) {
    for (int k = 0; k < 7; ++k) {
      for (const ParameterName& name : parameter_names(static_cast<LayerKind>(k), style)) {
        const bool matrix = name.axes[1] != ParameterAxis::kNone;
        EXPECT_EQ(name.required || name.part >= 0, matrix) << name.name;
        EXPECT_TRUE(matrix || !name.transposed) << name.name;
      }
    }
  }
}

}  // namespace
}  // namespace prenorm
