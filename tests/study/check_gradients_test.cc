#include "prenorm/study/check_gradients.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/study/check_fixture.h"
#include "tests/tolerances.h"

namespace prenorm {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;

TEST(CheckGradients, models_of_each_kind_have_the_properties) {
  for (const GptConfig& config : each_kind()) {
    const auto found = checked(check_model_gradients, config);
    EXPECT_THAT(failures(found), IsEmpty()) << name(config);
    ASSERT_EQ(found.size(), 2u);
    EXPECT_EQ(found[0].name, "model-gradients");
    EXPECT_LE(found[0].measured, tolerance::kAdjointFloat);
  }
}

TEST(CheckGradients, a_defect_in_the_gradient_of_any_one_parameter_is_found) {
  const auto model = random_model(small_config());
  for (const Parameter& p : model->parameters()) {
    CheckSeams seams;
    const auto correct = seams.gradients;
    seams.gradients = [&, correct](const Runtime& run, Gpt& small, Gpt::Workspace& work,
                                   const TokenBatch& batch) {
      const LossSum loss = correct(run, small, work, batch);
      for (float& g : small.parameters().find(p.name)->grad) g *= 1.01f;
      return loss;
    };
    EXPECT_THAT(failures(checked(check_model_gradients, small_config(), seams)),
                ElementsAre("model-gradients"))
        << p.name;
  }
}

TEST(CheckGradients, a_tied_weight_that_lacks_the_embeddings_share_is_found) {
  CheckSeams seams;
  seams.gradients = [](const Runtime& run, Gpt& model, Gpt::Workspace& work,
                       const TokenBatch& batch) {
    return model.forward_backward(run, work, batch, 1.0, {});  // and no finish_gradients()
  };
  EXPECT_THAT(failures(checked(check_model_gradients, small_config(), seams)),
              Contains("model-gradients"));
}

TEST(CheckGradients, a_number_of_threads_that_changes_a_bit_is_found) {
  CheckSeams seams;
  const auto correct = seams.gradients;
  seams.gradients = [correct](const Runtime& run, Gpt& model, Gpt::Workspace& work,
                              const TokenBatch& batch) {
    const LossSum loss = correct(run, model, work, batch);
    if (run.threads() == 3) nudge(model.parameters().grads()[17]);
    return loss;
  };
  EXPECT_THAT(failures(checked(check_model_gradients, small_config(), seams)),
              ElementsAre("gradient-threads"));
}

// f(x) = e^(300 x): a rounding of x near 1 moves the derivative by 300 · 6e-8.
TEST(CheckGradients, where_the_function_amplifies_roundings_the_bound_follows_and_defects_show) {
  using S = reference::Dual<double>;
  const DualFunction steep = [](const std::vector<reference::Tensor<S>>& in) {
    return reference::Tensor<S>::filled({1}, exp(S(300.0) * (in[0][0] - S(1.0))));
  };
  const std::vector<Values> x{Values({1}, {1.01})};
  const Values dy({1}, {1.0});
  const double at_rounded = 1.01 * (1.0 + 0x1p-24);
  const double slope = 300.0 * std::exp(300.0 * (at_rounded - 1.0));
  const GradientError rounded = gradient_error(steep, x, dy, {Values({1}, {slope})}, 1);
  EXPECT_GT(rounded.relative, 1e-6);
  EXPECT_LE(rounded.relative, rounded.bound);
  EXPECT_LT(rounded.bound, 1e-4);
  const GradientError wrong = gradient_error(steep, x, dy, {Values({1}, {slope * 1.001})}, 1);
  EXPECT_GT(wrong.relative, wrong.bound);
}

TEST(CheckGradients, a_vocabulary_of_one_token_has_no_loss_to_differentiate) {
  GptConfig config = small_config();
  config.vocab_size = 1;
  EXPECT_THAT(checked(check_model_gradients, config), IsEmpty());
}

TEST(CheckGradients, gradients_that_are_all_zero_prove_nothing) {
  using S = reference::Dual<double>;
  const DualFunction constant = [](const std::vector<reference::Tensor<S>>&) {
    return reference::Tensor<S>::filled({1}, S(1.0));
  };
  const GradientError error =
      gradient_error(constant, {Values({1}, {1.0})}, Values({1}, {1.0}), {Values({1}, {0.0})}, 1);
  EXPECT_TRUE(std::isinf(error.relative));
}

}  // namespace
}  // namespace prenorm
