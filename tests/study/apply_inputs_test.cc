#include "prenorm/study/apply_inputs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "prenorm/base/error.h"
#include "tests/memory_file.h"

namespace prenorm {
namespace {

using testing::ThrowsMessage;

TEST(ApplyInputs, what_is_missing_or_unexpected_is_named) {
  const TensorFile file = MemoryFile().ramp("input", {2}).file();
  const ApplyInputs in(file, {"input", "other"});
  EXPECT_EQ(in.require("input").shape, std::vector<Index>{2});
  EXPECT_EQ(in.find("other"), nullptr);
  EXPECT_THAT([&] { in.require("other"); },
              ThrowsMessage<FormatError>("X: expected a tensor 'other', found none of this name"));
  EXPECT_THAT(
      [&] {
        ApplyInputs(file, {"a", "b"});
      },
      ThrowsMessage<FormatError>(
          "X: tensor 'input': expected one of a, b, found an unexpected tensor"));
}

TEST(ApplyInputs, the_gradient_has_the_outputs_shape) {
  const TensorFile file = MemoryFile().ramp("grad_output", {2, 3}).file();
  const ApplyInputs in(file, {"grad_output"});
  EXPECT_EQ(in.grad_output({2, 3}, {6}).shape(), std::vector<Index>{6});
  EXPECT_THAT(
      [&] {
        in.grad_output({3, 2}, {6});
      },
      ThrowsMessage<FormatError>(
          "X: tensor 'grad_output': expected [3, 2], as the output, found [2, 3]"));
  const TensorFile none = MemoryFile().file();
  EXPECT_TRUE(ApplyInputs(none, {}).grad_output({1}, {1}).absent());
}

TEST(ApplyInputs, ids_are_checked_and_ignored_ones_become_minus_one) {
  const TensorFile file = MemoryFile().integers("ids", {3}, {4, -100, 0}).file();
  const ApplyInputs in(file, {"ids"});
  const Tensor& ids = in.require("ids");
  EXPECT_EQ(in.ids(ids, 5, {-1, -100}), (std::vector<TokenId>{4, -1, 0}));
  EXPECT_THAT([&] { in.ids(ids, 5); },
              ThrowsMessage<FormatError>(
                  "X: tensor 'ids': expected numbers in [0, 5), found -100 at element 1"));
  EXPECT_THAT([&] { in.ids(ids, 4, {-100}); },
              ThrowsMessage<FormatError>(
                  "X: tensor 'ids': expected numbers in [0, 4) or -100, found 4 at element 0"));
}

TEST(ApplyInputs, tensors_to_write_own_their_numbers) {
  const reference::Tensor<double> x({2}, {0.1, 3.0});
  const Tensor single = owned_tensor("y", {1, 2}, x, false);
  EXPECT_EQ(single.dtype, Dtype::kF32);
  const TensorFile file("Y", {single, owned_tensor("z", {2}, x, true)});
  EXPECT_EQ(file.doubles(file.tensors()[0]), (std::vector<double>{0.1f, 3.0}));
  EXPECT_EQ(file.doubles(file.tensors()[1]), x.values());
}

}  // namespace
}  // namespace prenorm
