#include "prenorm/study/kernel_attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "prenorm/study/textbook_pass.h"
#include "tests/study/layer_pass_cases.h"
#include "tests/tolerances.h"

namespace prenorm {
namespace {

void expect_near(const Values& found, const Values& expected) {
  ASSERT_EQ(found.shape(), expected.shape());
  for (Index i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i], expected[i],
                tolerance::kFloatAtol + tolerance::kFloatRtol * std::abs(expected[i]));
  }
}

TEST(KernelAttention, values_may_be_narrower_or_wider_than_queries) {
  for (const Index width : {1, 4, 6, 20}) {
    LayerPass pass = small_pass(ApplyLayer::kScaledDotProductAttention);
    pass.value = random_tensor({2, 7, width}, 5);
    pass.grad_output = random_tensor({2, 5, width}, 6);
    const LayerOutcome found = kernel_attention(Runtime(), pass), expected = textbook_pass(pass);
    expect_near(found.output, expected.output);
    expect_near(found.dinput, expected.dinput);
    expect_near(found.dkey, expected.dkey);
    expect_near(found.dvalue, expected.dvalue);
  }
}

TEST(KernelAttention, the_scale_is_that_of_the_queries_width_unless_given) {
  LayerPass pass = small_pass(ApplyLayer::kScaledDotProductAttention);
  const Values by_default = kernel_attention(Runtime(), pass).output;
  pass.options.scale = 1.0 / std::sqrt(6.0);
  EXPECT_EQ(kernel_attention(Runtime(), pass).output, by_default);
  pass.options.scale = 0.1;
  expect_near(kernel_attention(Runtime(), pass).output, textbook_pass(pass).output);
}

TEST(KernelAttention, attention_to_the_input_itself_is_self_attention) {
  for (const bool causal : {true, false}) {
    LayerPass pass = small_pass(ApplyLayer::kAttention);
    pass.options.causal = causal;
    const LayerOutcome self = kernel_attention(Runtime(), pass);
    pass.key = pass.value = pass.input;
    const LayerOutcome cross = kernel_attention(Runtime(), pass);
    EXPECT_EQ(cross.output, self.output);
    EXPECT_EQ(cross.gradients, self.gradients);
    Values sum = reference::add(reference::add(cross.dinput, cross.dkey), cross.dvalue);
    expect_near(sum, self.dinput);
  }
}

TEST(KernelAttention, a_query_that_sees_no_key_has_the_output_zero_and_no_gradient) {
  LayerPass pass = small_pass(ApplyLayer::kScaledDotProductAttention);
  pass.options.causal = false;
  pass.mask.added = Values({1, 1, 5, 7});
  for (Index s = 0; s < 7; ++s) {
    pass.mask.added(3, s) = -std::numeric_limits<double>::infinity();
  }
  const LayerOutcome out = kernel_attention(Runtime(), pass);
  for (const Index row : {3, 8}) {
    for (Index c = 0; c < 8; ++c) EXPECT_EQ(out.output(row, c), 0.0);
    for (Index c = 0; c < 6; ++c) EXPECT_EQ(out.dinput(row, c), 0.0);
  }
  for (const double x : out.dkey) EXPECT_TRUE(std::isfinite(x));
}

}  // namespace
}  // namespace prenorm
