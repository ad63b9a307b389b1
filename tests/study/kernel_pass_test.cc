#include "prenorm/study/kernel_pass.h"

#include <gtest/gtest.h>

#include <cmath>

#include "prenorm/base/error.h"
#include "prenorm/study/textbook_pass.h"
#include "tests/kernels/kernel_test_util.h"
#include "tests/study/layer_pass_cases.h"
#include "tests/tolerances.h"

namespace prenorm {
namespace {

void expect_near(const Values& found, const Values& expected) {
  ASSERT_EQ(found.shape(), expected.shape());
  double error = 0.0, norm = 0.0;
  for (Index i = 0; i < found.size(); ++i) {
    error += (found[i] - expected[i]) * (found[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  EXPECT_LE(std::sqrt(error), tolerance::kFloatGradientNorm * std::sqrt(norm));
}

TEST(KernelPass, every_layer_is_the_textbooks_forward_and_backward) {
  const Runtime run(Runtime::Options{2, "auto"});
  for (const auto& [name, pass] : small_passes()) {
    SCOPED_TRACE(name);
    const LayerOutcome found = kernel_pass(run, pass), expected = textbook_pass(pass);
    expect_near(found.output, expected.output);
    expect_near(found.dinput, expected.dinput);
    expect_near(found.dkey, expected.dkey);
    expect_near(found.dvalue, expected.dvalue);
    ASSERT_EQ(found.gradients.size(), expected.gradients.size());
    for (const auto& [parameter, gradient] : expected.gradients) {
      SCOPED_TRACE(parameter);
      expect_near(found.gradients.at(parameter), gradient);
    }
  }
}

TEST(KernelPass, bits_do_not_depend_on_target_or_threads) {
  for (const auto& named : small_passes()) {
    SCOPED_TRACE(named.first);
    const LayerOutcome expected = kernel_pass(Runtime(), named.second);
    on_every_runtime([&](const Runtime& run) {
      const LayerOutcome found = kernel_pass(run, named.second);
      EXPECT_EQ(found.output, expected.output);
      EXPECT_EQ(found.dinput, expected.dinput);
      EXPECT_EQ(found.gradients, expected.gradients);
    });
  }
}

TEST(KernelPass, without_the_outputs_gradient_there_is_none) {
  const Runtime run;
  for (auto& [name, pass] : small_passes()) {
    SCOPED_TRACE(name);
    const Values output = kernel_pass(run, pass).output;
    pass.grad_output = {};
    const LayerOutcome out = kernel_pass(run, pass);
    EXPECT_EQ(out.output, output);
    EXPECT_TRUE(out.dinput.absent() && out.dkey.absent() && out.gradients.empty());
  }
}

TEST(KernelPass, a_model_is_no_layer) {
  LayerPass pass;
  pass.layer = ApplyLayer::kGpt;
  EXPECT_THROW(kernel_pass(Runtime(), pass), ConfigError);
}

}  // namespace
}  // namespace prenorm
