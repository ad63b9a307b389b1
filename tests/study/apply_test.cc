#include "prenorm/study/apply.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "prenorm/base/error.h"
#include "prenorm/model/checkpoint.h"
#include "tests/config_of.h"
#include "tests/memory_file.h"
#include "tests/temporary_folder.h"
#include "tests/tolerances.h"

namespace prenorm {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

std::vector<std::string> names_of(const std::vector<Tensor>& tensors) {
  std::vector<std::string> names;
  for (const Tensor& t : tensors) names.push_back(t.name);
  return names;
}

const Tensor& find(const std::vector<Tensor>& tensors, const std::string& name) {
  const auto it = std::ranges::find(tensors, name, &Tensor::name);
  EXPECT_NE(it, tensors.end()) << name;
  return *it;
}

std::vector<double> numbers(const Tensor& t) { return TensorFile("Y", {t}).doubles(t); }

MemoryFile block() {
  MemoryFile p("P");
  p.ramp("self_attn.in_proj_weight", {12, 4}, -0.5f, 0.03f)
      .ramp("self_attn.out_proj.weight", {4, 4}, 0.2f, -0.04f)
      .ramp("linear1.weight", {5, 4}, -0.3f, 0.05f)
      .ramp("linear2.weight", {4, 5}, 0.1f, -0.02f)
      .ramp("norm1.weight", {4})
      .ramp("norm2.weight", {4});
  return p;
}

TEST(Apply, names_and_layers_are_one_table) {
  for (std::size_t i = 0; i < apply_layer_names().size(); ++i) {
    EXPECT_EQ(apply_layer_from_name(apply_layer_names()[i]), static_cast<ApplyLayer>(i));
  }
  EXPECT_EQ(apply_layer_names().size(), 12u);
  EXPECT_EQ(apply_layer_from_name("cross-entropy"), ApplyLayer::kCrossEntropy);
  EXPECT_EQ(apply_layer_from_name("conv"), std::nullopt);
}

TEST(Apply, gradients_have_the_names_and_shapes_of_what_they_are_of) {
  const TensorFile p = block().file();
  const TensorFile x = MemoryFile().ramp("input", {2, 3, 4}).ramp("grad_output", {2, 3, 4}).file();
  for (const bool reference : {false, true}) {
    ApplyOptions options;
    options.heads = 2;
    options.reference = reference;
    const auto out = apply(Runtime(), ApplyLayer::kBlock, options, &p, x);
    EXPECT_EQ(out.size(), 2 + p.tensors().size());
    EXPECT_EQ(find(out, "output").shape, (std::vector<Index>{2, 3, 4}));
    EXPECT_EQ(find(out, "grad.input").shape, (std::vector<Index>{2, 3, 4}));
    for (const Tensor& t : p.tensors()) {
      EXPECT_EQ(find(out, "grad." + t.name).shape, t.shape) << t.name;
      EXPECT_EQ(find(out, "grad." + t.name).dtype, reference ? Dtype::kF64 : Dtype::kF32);
    }
  }
}

TEST(Apply, one_sequence_is_a_batch_of_one) {
  const TensorFile p = block().file();
  ApplyOptions options;
  options.heads = 2;
  const TensorFile one = MemoryFile().ramp("input", {3, 4}).ramp("grad_output", {3, 4}).file();
  const TensorFile batch =
      MemoryFile().ramp("input", {1, 3, 4}).ramp("grad_output", {1, 3, 4}).file();
  const auto a = apply(Runtime(), ApplyLayer::kBlock, options, &p, one);
  const auto b = apply(Runtime(), ApplyLayer::kBlock, options, &p, batch);
  ASSERT_EQ(names_of(a), names_of(b));
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_EQ(numbers(a[i]), numbers(b[i])) << a[i].name;
  EXPECT_EQ(find(a, "output").shape, (std::vector<Index>{3, 4}));
}

TEST(Apply, bad_tensors_are_named_with_what_was_expected_and_found) {
  const TensorFile p = block().file();
  const auto expect_refused = [&](const MemoryFile& x, const std::string& message,
                                  Index heads = 2) {
    const TensorFile file = x.file();
    ApplyOptions options;
    options.heads = heads;
    EXPECT_THAT([&] { apply(Runtime(), ApplyLayer::kBlock, options, &p, file); },
                ThrowsMessage<FormatError>(message));
  };
  expect_refused(MemoryFile(), "X: expected a tensor 'input', found none of this name");
  expect_refused(MemoryFile().ramp("input", {3, 4}).ramp("x", {1}),
                 "X: tensor 'x': expected one of input, attn_mask, key_padding_mask, grad_output, "
                 "found an unexpected tensor");
  expect_refused(MemoryFile().ramp("input", {4}),
                 "X: tensor 'input': expected [B, T, C] or [T, C], found [4]");
  expect_refused(MemoryFile().ramp("input", {3, 5}),
                 "X: tensor 'input': expected [.., 4], found [3, 5]");
  expect_refused(MemoryFile().integers("input", {1, 4}, {1, 2, 3, 4}),
                 "X: tensor 'input': expected dtype F32, F16, BF16 or F64, found I64");
  expect_refused(MemoryFile().ramp("input", {3, 4}).ramp("grad_output", {1, 3, 4}),
                 "X: tensor 'grad_output': expected [3, 4], as the output, found [1, 3, 4]");
  expect_refused(MemoryFile().ramp("input", {3, 4}),
                 "X: tensor 'input': expected a width that 3 heads divide, found [3, 4]", 3);
}

TEST(Apply, what_an_option_or_a_file_must_say_is_asked_for) {
  const TensorFile p = block().file(), x = MemoryFile().ramp("input", {3, 4}).file();
  EXPECT_THAT([&] { apply(Runtime(), ApplyLayer::kBlock, {}, &p, x); },
              ThrowsMessage<ConfigError>(HasSubstr("--heads: expected")));
  EXPECT_THAT([&] { apply(Runtime(), ApplyLayer::kLinear, {}, nullptr, x); },
              ThrowsMessage<ConfigError>(HasSubstr("--params: expected")));
  EXPECT_THAT([&] { apply(Runtime(), ApplyLayer::kSoftmax, {}, &p, x); },
              ThrowsMessage<FormatError>(HasSubstr("no parameters for softmax")));
  ApplyOptions options;
  options.axis = 2;
  EXPECT_THAT([&] { apply(Runtime(), ApplyLayer::kSoftmax, options, nullptr, x); },
              ThrowsMessage<ConfigError>("--axis: expected an axis of [3, 4], found 2"));
}

TEST(Apply, nothing_gives_nothing) {
  const TensorFile p = block().file();
  const TensorFile x = MemoryFile().ramp("input", {2, 0, 4}).ramp("grad_output", {2, 0, 4}).file();
  ApplyOptions options;
  options.heads = 2;
  const auto out = apply(Runtime(), ApplyLayer::kBlock, options, &p, x);
  EXPECT_EQ(find(out, "output").shape, (std::vector<Index>{2, 0, 4}));
  for (const Tensor& t : out) {
    for (const double number : numbers(t)) EXPECT_EQ(number, 0.0);
  }
}

class ApplyModel : public testing::Test {
 protected:
  ApplyModel() {
    GptConfig config = config_of(2, 2, 4, 5, 7);
    config.resid_pdrop = 0.5;  // off here
    config.bias = false;       // written as biases of zero, which have gradients
    Gpt model(config);
    model.initialize(3);
    save_pretrained(model, folder_.path());
  }
  std::vector<Tensor> apply_to(const MemoryFile& x, bool reference = false) const {
    ApplyOptions options;
    options.reference = reference;
    return apply_gpt(Runtime(), options, folder_.path(), x.file());
  }
  TemporaryFolder folder_{"apply-model"};
};

TEST_F(ApplyModel, both_ways_agree_and_every_tensor_of_the_file_has_its_gradient) {
  const MemoryFile x = MemoryFile()
                           .integers("input_ids", {2, 3}, {1, 2, 3, 6, 5, 0})
                           .integers("targets", {2, 3}, {2, 3, -100, -1, 0, 1});
  const auto found = apply_to(x), expected = apply_to(x, true);
  EXPECT_EQ(names_of(found), names_of(expected));
  const Safetensors file(folder_.path() / "model.safetensors");
  for (const Tensor& t : file.tensors()) {
    EXPECT_EQ(find(found, "grad." + t.name).shape, t.shape);
    EXPECT_TRUE(std::ranges::any_of(numbers(find(found, "grad." + t.name)), [](double g) {
      return g != 0.0;
    })) << t.name;
  }
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto a = numbers(found[i]), b = numbers(expected[i]);
    for (std::size_t j = 0; j < a.size(); ++j) EXPECT_NEAR(a[j], b[j], tolerance::kFloatAtol);
  }
  EXPECT_EQ(find(found, "loss").shape, std::vector<Index>());
}

TEST_F(ApplyModel, without_targets_there_are_logits_alone) {
  const auto out = apply_to(MemoryFile().integers("input_ids", {3}, {1, 2, 3}));
  EXPECT_EQ(names_of(out), std::vector<std::string>{"logits"});
  EXPECT_EQ(out[0].shape, (std::vector<Index>{3, 7}));
}

TEST_F(ApplyModel, bad_tokens_are_named) {
  const auto expect_refused = [&](const MemoryFile& x, const std::string& message) {
    EXPECT_THAT([&] { apply_to(x); }, ThrowsMessage<FormatError>(message));
  };
  expect_refused(MemoryFile().integers("input_ids", {1, 6}, {0, 0, 0, 0, 0, 0}),
                 "X: tensor 'input_ids': expected at most 5 tokens, the model's context, found "
                 "[1, 6]");
  expect_refused(MemoryFile().integers("input_ids", {1}, {7}),
                 "X: tensor 'input_ids': expected numbers in [0, 7), found 7 at element 0");
  expect_refused(MemoryFile().integers("input_ids", {1}, {1}).integers("targets", {1}, {-2}),
                 "X: tensor 'targets': expected numbers in [0, 7) or -1 or -100, found -2 at "
                 "element 0");
  expect_refused(MemoryFile().integers("input_ids", {1}, {1}).integers("targets", {1, 1}, {1}),
                 "X: tensor 'targets': expected [1], found [1, 1]");
  expect_refused(MemoryFile().ramp("input_ids", {1}),
                 "X: tensor 'input_ids': expected an integer dtype, found F32");
}

}  // namespace
}  // namespace prenorm
