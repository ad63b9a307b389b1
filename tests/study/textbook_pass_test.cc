#include "prenorm/study/textbook_pass.h"

#include <gtest/gtest.h>

#include <cmath>

#include "prenorm/base/error.h"
#include "tests/study/layer_pass_cases.h"
#include "tests/tolerances.h"

namespace prenorm {
namespace {

double dot(const Values& a, const Values& b) {
  double sum = 0.0;
  for (Index i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// The tensors of a pass that have gradients, beside these.
std::vector<std::pair<Values*, const Values*>> with_gradients(LayerPass& pass,
                                                              const LayerOutcome& out) {
  std::vector<std::pair<Values*, const Values*>> pairs;
  for (const auto& [x, dx] :
       {std::pair(&pass.input, &out.dinput), {&pass.key, &out.dkey}, {&pass.value, &out.dvalue}}) {
    if (!x->absent()) pairs.emplace_back(x, dx);
  }
  for (auto& [name, value] : pass.parameters) pairs.emplace_back(&value, &out.gradients.at(name));
  return pairs;
}

// A central difference along one direction in all tensors at once: that each gradient goes to the
// tensor that it belongs to. The gradients themselves are proved where the textbook is.
TEST(TextbookPass, gradients_belong_to_the_tensors_that_they_are_given_for) {
  for (auto& named : small_passes()) {
    SCOPED_TRACE(named.first);
    LayerPass& pass = named.second;
    const LayerOutcome out = textbook_pass(pass);
    EXPECT_EQ(out.gradients.size(), pass.parameters.size());
    std::vector<Values> directions;
    double expected = 0.0;
    std::uint64_t seed = 700;
    for (const auto& [x, dx] : with_gradients(pass, out)) {
      ASSERT_EQ(dx->shape(), x->shape());
      directions.push_back(random_tensor(x->shape(), ++seed));
      expected += dot(*dx, directions.back());
    }
    constexpr double kStep = 1e-6;
    const auto moved = [&](double step) {
      LayerPass other = pass;
      std::size_t i = 0;
      for (const auto& [x, dx] : with_gradients(other, out)) {
        for (Index j = 0; j < x->size(); ++j) (*x)[j] += step * directions[i][j];
        ++i;
      }
      return dot(textbook_pass(other).output, pass.grad_output);
    };
    EXPECT_NEAR((moved(kStep) - moved(-kStep)) / (2.0 * kStep), expected,
                tolerance::kCentralDifference * (1.0 + std::abs(expected)));
  }
}

TEST(TextbookPass, without_the_outputs_gradient_there_is_none) {
  for (auto& [name, pass] : small_passes()) {
    SCOPED_TRACE(name);
    const Values output = textbook_pass(pass).output;
    pass.grad_output = {};
    const LayerOutcome out = textbook_pass(pass);
    EXPECT_EQ(out.output, output);
    EXPECT_TRUE(out.dinput.absent() && out.dkey.absent() && out.gradients.empty());
  }
}

TEST(TextbookPass, a_model_is_no_layer) {
  LayerPass pass;
  pass.layer = ApplyLayer::kGpt;
  EXPECT_THROW(textbook_pass(pass), ConfigError);
}

}  // namespace
}  // namespace prenorm
