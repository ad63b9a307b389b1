#include "prenorm/model/parameter_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "prenorm/base/error.h"
#include "tests/memory_file.h"

namespace prenorm {
namespace {

using testing::ThrowsMessage;
using Values = reference::Tensor<double>;

// The tensors of a block of width 2 and inner width 3 in PyTorch's style.
MemoryFile torch_block(const std::string& prefix = "", const std::string& name = "P") {
  MemoryFile file(name);
  file.ramp(prefix + "self_attn.in_proj_weight", {6, 2}, 1, 1)
      .ramp(prefix + "self_attn.in_proj_bias", {6}, 100, 1)
      .ramp(prefix + "self_attn.out_proj.weight", {2, 2}, 20, 1)
      .ramp(prefix + "linear1.weight", {3, 2}, 30, 1)
      .ramp(prefix + "linear2.weight", {2, 3}, 40, 1)
      .ramp(prefix + "norm1.weight", {2}, 50, 1)
      .ramp(prefix + "norm2.weight", {2}, 60, 1)
      .ramp(prefix + "self_attn.out_proj.bias", {2}, 70, 1)
      .ramp(prefix + "linear1.bias", {3}, 80, 1)
      .ramp(prefix + "linear2.bias", {2}, 90, 1);
  return file;
}

MemoryFile gpt2_block(const std::string& prefix, MemoryFile file = MemoryFile("P")) {
  file.ramp(prefix + "attn.c_attn.weight", {2, 6}, 1, 1)
      .ramp(prefix + "attn.c_proj.weight", {2, 2}, 2, 1)
      .ramp(prefix + "mlp.c_fc.weight", {2, 3}, 3, 1)
      .ramp(prefix + "mlp.c_proj.weight", {3, 2}, 4, 1);
  return file;
}

// What take() gives back for each tensor is what the file holds.
void expect_round_trip(LayerKind kind, const TensorFile& file) {
  const ParameterLayout layout(kind, file);
  const ParameterValues values = layout.read();
  for (const LaidOutTensor& place : layout.tensors()) {
    const Values back = layout.take(place, values);
    EXPECT_EQ(back.shape(), place.tensor->shape) << place.tensor->name;
    EXPECT_EQ(back.values(), file.doubles(*place.tensor)) << place.tensor->name;
  }
}

void expect_refused(LayerKind kind, const TensorFile& file, const std::string& message,
                    std::optional<Index> width = {}) {
  EXPECT_THAT([&] { ParameterLayout(kind, file, width); }, ThrowsMessage<FormatError>(message));
}

TEST(ParameterLayout, pytorchs_matrices_are_transposed_and_gpt2s_are_not) {
  const TensorFile torch = torch_block().file();
  const ParameterLayout layout(LayerKind::kBlock, torch);
  EXPECT_EQ(layout.width(), 2);
  EXPECT_EQ(layout.inner(), 3);
  const ParameterValues values = layout.read();
  // in_proj_weight's rows q0 q1 k0 k1 v0 v1 become columns.
  EXPECT_EQ(values.at("h.0.attn.c_attn.weight"),
            Values({2, 6}, {1, 3, 5, 7, 9, 11, 2, 4, 6, 8, 10, 12}));
  EXPECT_EQ(values.at("h.0.mlp.c_fc.weight"), Values({2, 3}, {30, 32, 34, 31, 33, 35}));
  EXPECT_EQ(values.at("h.0.ln_1.weight"), Values({2}, {50, 51}));
  EXPECT_FALSE(values.contains("h.0.ln_1.bias"));

  const TensorFile gpt2 = gpt2_block("").file();
  EXPECT_EQ(ParameterLayout(LayerKind::kBlock, gpt2).read().at("h.0.mlp.c_fc.weight"),
            Values({2, 3}, {3, 4, 5, 6, 7, 8}));
}

TEST(ParameterLayout, every_tensor_comes_back_in_its_own_layout) {
  expect_round_trip(LayerKind::kBlock, torch_block("encoder.").file());
  expect_round_trip(LayerKind::kBlock, gpt2_block("transformer.h.7.").file());
  expect_round_trip(LayerKind::kStack,
                    gpt2_block("transformer.h.0.",
                               gpt2_block("transformer.h.1.").ramp("transformer.ln_f.weight", {2}))
                        .file());
  expect_round_trip(LayerKind::kStack, torch_block("layers.0.").ramp("norm.bias", {2}).file());
  expect_round_trip(LayerKind::kFeedForward, MemoryFile()
                                                 .ramp("0.weight", {3, 2})
                                                 .ramp("0.bias", {3})
                                                 .ramp("2.weight", {2, 3})
                                                 .ramp("2.bias", {2})
                                                 .file());
  expect_round_trip(LayerKind::kLayerNorm,
                    MemoryFile().ramp("weight", {2, 3}).ramp("bias", {2, 3}).file());
  expect_round_trip(LayerKind::kLinear, MemoryFile().ramp("weight", {4, 3}).file());
  expect_round_trip(LayerKind::kEmbedding, MemoryFile().ramp("weight", {4, 3}).file());
  expect_round_trip(LayerKind::kAttention, MemoryFile()
                                               .ramp("q_proj_weight", {2, 2}, 1)
                                               .ramp("k_proj_weight", {2, 2}, 2)
                                               .ramp("v_proj_weight", {2, 2}, 3)
                                               .ramp("out_proj.weight", {2, 2}, 4)
                                               .file());
}

TEST(ParameterLayout, separate_projections_are_thirds_of_the_packed_one) {
  const TensorFile file = MemoryFile()
                              .floats("v_proj_weight", {1, 1}, {3})
                              .floats("k_proj_weight", {1, 1}, {2})
                              .floats("q_proj_weight", {1, 1}, {1})
                              .floats("out_proj.weight", {1, 1}, {4})
                              .file();
  EXPECT_EQ(ParameterLayout(LayerKind::kAttention, file).read().at("attn.c_attn.weight"),
            Values({1, 3}, {1, 2, 3}));
}

TEST(ParameterLayout, layers_of_a_stack_are_counted_and_the_final_norm_is_seen) {
  MemoryFile file = gpt2_block("h.0.", gpt2_block("h.1."));
  EXPECT_EQ(ParameterLayout(LayerKind::kStack, file.file()).layers(), 2);
  EXPECT_FALSE(ParameterLayout(LayerKind::kStack, file.file()).has_final_norm());
  EXPECT_TRUE(
      ParameterLayout(LayerKind::kStack, file.ramp("ln_f.weight", {2}).file()).has_final_norm());
}

TEST(ParameterLayout, mask_buffers_of_gpt2_are_passed_over) {
  const TensorFile file = gpt2_block("h.0.")
                              .bools("h.0.attn.bias", {1, 1, 1, 1}, {1})
                              .ramp("h.0.attn.masked_bias", {1})
                              .file();
  EXPECT_EQ(ParameterLayout(LayerKind::kStack, file).tensors().size(), 4u);
}

TEST(ParameterLayout, what_is_missing_or_unexpected_is_named) {
  expect_refused(LayerKind::kBlock, torch_block().ramp("extra", {2}).file(),
                 "P: tensor 'extra': expected names of block parameters, found an unexpected "
                 "tensor");
  expect_refused(LayerKind::kStack, gpt2_block("h.0.", gpt2_block("h.2.")).file(),
                 "P: expected a tensor 'h.1.attn.c_attn.weight', found none of this name");
  expect_refused(LayerKind::kAttention,
                 MemoryFile("P").ramp("in_proj_weight", {6, 2}).ramp("in_proj_bias", {6}).file(),
                 "P: expected a tensor 'out_proj.weight', found none of this name");
  expect_refused(
      LayerKind::kAttention,
      MemoryFile("P").ramp("q_proj_weight", {2, 2}).ramp("out_proj.weight", {2, 2}).file(),
      "P: expected a tensor 'k_proj_weight', found none of this name");
  expect_refused(LayerKind::kAttention,
                 MemoryFile("P")
                     .ramp("in_proj_weight", {6, 2})
                     .ramp("q_proj_weight", {2, 2})
                     .ramp("k_proj_weight", {2, 2})
                     .ramp("v_proj_weight", {2, 2})
                     .ramp("out_proj.weight", {2, 2})
                     .file(),
                 "P: tensor 'v_proj_weight': expected no separate weight beside in_proj_weight, "
                 "found both");
  expect_refused(LayerKind::kFeedForward, MemoryFile("P").file(),
                 "P: expected a tensor 'linear1.weight', found none of this name");
  expect_refused(LayerKind::kStack, gpt2_block("h.00.").file(),
                 "P: tensor 'h.00.attn.c_attn.weight': expected names of stack parameters, "
                 "found an unexpected tensor");
}

TEST(ParameterLayout, what_may_be_left_out_is_left_out_together) {
  const auto without = [](const std::string& name) {
    MemoryFile rest("P");
    const TensorFile all = torch_block().file();
    for (const Tensor& t : all.tensors()) {
      if (t.name != name) rest.ramp(t.name, t.shape);
    }
    return rest;
  };
  for (const std::string name : {"linear1.bias", "self_attn.in_proj_bias", "norm2.weight"}) {
    expect_refused(
        LayerKind::kBlock, without(name).file(),
        "P: expected a tensor '" + name + "' like the others of its kind, found none of this name");
  }
  expect_refused(LayerKind::kBlock, torch_block().ramp("norm1.bias", {2}).file(),
                 "P: expected a tensor 'norm2.bias' like the others of its kind, found none of "
                 "this name");
  expect_refused(LayerKind::kAttention,
                 MemoryFile("P")
                     .ramp("in_proj_weight", {6, 2})
                     .ramp("in_proj_bias", {6})
                     .ramp("out_proj.weight", {2, 2})
                     .file(),
                 "P: expected a tensor 'out_proj.bias' like the others of its kind, found none of "
                 "this name");
  expect_refused(LayerKind::kStack,
                 gpt2_block("h.0.", gpt2_block("h.1.")).ramp("h.1.ln_1.bias", {2}).file(),
                 "P: expected a tensor 'h.0.ln_1.bias' like the others of its kind, found none of "
                 "this name");
}

TEST(ParameterLayout, the_tensor_that_disagrees_with_most_is_named) {
  expect_refused(LayerKind::kBlock, torch_block().ramp("norm2.weight", {5}).file(),
                 "P: tensor 'norm2.weight': expected [2], found [5]");
  expect_refused(LayerKind::kBlock, torch_block().ramp("linear1.bias", {2}).file(),
                 "P: tensor 'linear1.bias': expected [3], found [2]");
  expect_refused(LayerKind::kBlock, torch_block().ramp("linear2.bias", {1, 2}).file(),
                 "P: tensor 'linear2.bias': expected [2], found [1, 2]");
  // Two tensors that disagree: the input's width decides.
  const TensorFile two = MemoryFile("P").ramp("weight", {5, 3}).ramp("bias", {4}).file();
  expect_refused(LayerKind::kLinear, two, "P: tensor 'weight': expected [4, 3], found [5, 3]");
  expect_refused(LayerKind::kLayerNorm,
                 MemoryFile("P").ramp("bias", {4}).ramp("weight", {3}).file(),
                 "P: tensor 'bias': expected [3], as the weight, found [4]");
  expect_refused(LayerKind::kLinear, MemoryFile("P").ramp("weight", {0, 3}).file(),
                 "P: tensor 'weight': expected sizes of at least 1, found [0, 3]");
  expect_refused(
      LayerKind::kFeedForward,
      MemoryFile("P").ramp("linear1.weight", {4, 3}).ramp("linear2.weight", {2, 4}).file(),
      "P: tensor 'linear2.weight': expected [3, 4], found [2, 4]", 3);
  expect_refused(
      LayerKind::kFeedForward,
      MemoryFile("P").ramp("linear1.weight", {4, 3}).ramp("linear2.weight", {2, 4}).file(),
      "P: tensor 'linear1.weight': expected [4, 2], found [4, 3]", 2);
}

TEST(ParameterLayout, a_type_that_is_not_floating_point_is_refused_when_read) {
  const TensorFile file = MemoryFile("P").integers("weight", {1, 1}, {1}).file();
  const ParameterLayout layout(LayerKind::kLinear, file);
  EXPECT_THAT([&] { layout.read(); },
              ThrowsMessage<FormatError>(
                  "P: tensor 'weight': expected dtype F32, F16, BF16 or F64, found I64"));
}

}  // namespace
}  // namespace prenorm
