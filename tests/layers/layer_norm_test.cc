#include "prenorm/layers/layer_norm.h"

#include <numeric>

#include "tests/layers/layer_test_util.h"

namespace prenorm {
namespace {

struct Case {
  Index rows, features;
  double eps = 1e-5;
  bool bias = true;
};
const Case kCases[] = {{1, 2, 0.5},         {3, 7},         {300, 33}, {2, 1000},
                       {5, 16, 0.5, false}, {513, 5, 1e-12}};

struct Fixture {
  ParameterRegistry parameters;
  LayerNorm layer;
  explicit Fixture(const Case& c) : layer(parameters, "ln_1", c.features, c.eps, c.bias) {
    fill(parameters, 1);
  }
  Subject subject(const Case& c) {
    return subject_of(layer, parameters, random_tensor({c.rows, c.features}, 11, 3.0),
                      random_tensor({c.rows, c.features}, 12));
  }
};

auto textbook_of(const Case& c) {
  return [eps = c.eps](const auto& in) {
    reference::LayerNormOptions options;
    options.eps = eps;
    return reference::layer_norm(in[0], {in[1], optional(in, 2)}, options);
  };
}

TEST(LayerNorm, is_the_textbook_and_backward_the_adjoint_of_forward) {
  for (const Case& c : kCases) {
    SCOPED_TRACE("features " + std::to_string(c.features));
    Fixture f(c);
    expect_is_the_textbook(f.subject(c), textbook_of(c));
  }
}

TEST(LayerNorm, has_the_same_bits_on_every_target_and_thread_count) {
  for (const Case& c : kCases) {
    Fixture f(c);
    expect_same_bits_everywhere(f.subject(c));
  }
}

TEST(LayerNorm, statistics_taken_for_constants_in_the_backward_pass_are_found) {
  const Case c{4, 9};
  Fixture f(c);
  const Subject s = f.subject(c);
  const Tensors right = s.run(Runtime()).gradients;
  const Tensor &x = s.x[0], &weight = s.x[1];
  // dx = r (g − mean(g) − x̂ mean(g ⊙ x̂)): without either of its two last terms.
  Tensor x_hat(x.shape());
  Tensors no_mean = right, no_variance = right, gradient_of_y = right;
  for (Index n = 0; n < x.rows(); ++n) {
    const double r =
        reference::normalize_line(x, reference::normalized_line(x, n, false), {}, x_hat);
    double mean_g = 0.0, mean_g_x_hat = 0.0;
    for (Index i = 0; i < x.columns(); ++i) {
      mean_g += s.dy(n, i) * weight[i] / static_cast<double>(x.columns());
      mean_g_x_hat += s.dy(n, i) * weight[i] * x_hat(n, i) / static_cast<double>(x.columns());
    }
    for (Index i = 0; i < x.columns(); ++i) {
      no_mean[0](n, i) += r * mean_g;
      no_variance[0](n, i) += r * x_hat(n, i) * mean_g_x_hat;
    }
  }
  EXPECT_GT(adjoint_error(textbook_of(c), s, no_mean), tolerance::kPlantedBug);
  EXPECT_GT(adjoint_error(textbook_of(c), s, no_variance), tolerance::kPlantedBug);
  // dγ = Σ dy ⊙ y in place of dy ⊙ x̂.
  const Tensor y = textbook_of(c)(s.x);
  for (Index i = 0; i < x.columns(); ++i) {
    gradient_of_y[1][i] = 0.0;
    for (Index n = 0; n < x.rows(); ++n) gradient_of_y[1][i] += s.dy(n, i) * y(n, i);
  }
  EXPECT_GT(adjoint_error(textbook_of(c), s, gradient_of_y), tolerance::kPlantedBug);
}

TEST(LayerNorm, of_one_feature_is_the_bias_and_passes_no_gradient_back) {
  const Case c{3, 1};
  Fixture f(c);
  const Subject s = f.subject(c);
  const Outcome out = s.run(Runtime());
  for (double y : out.y) EXPECT_EQ(y, s.x[2][0]);
  for (double dx : out.gradients[0]) EXPECT_EQ(dx, 0.0);
  EXPECT_EQ(out.gradients[1][0], 0.0);
}

TEST(LayerNorm, adds_a_residual_to_dx_which_may_be_dy_itself) {
  const Case c{40, 19};
  Fixture f(c);
  const Subject s = f.subject(c);
  const Tensor dx = s.run(Runtime()).gradients[0];
  const TestMatrix x = matrix_of(s.x[0]);
  TestMatrix y(40, 19), dy = matrix_of(s.dy), got(40, 19);
  auto saved = place([&](Arena& arena) { return f.layer.plan(arena, 40); });
  const Runtime run;
  f.layer.forward(run, x.view(), y.view(), saved.views);
  f.layer.backward(run, dy.view(), x.view(), saved.views, dy.view(), got.view());
  expect_close(to_tensor(got.view()), reference::add(dx, s.dy));
  f.layer.backward(run, dy.view(), x.view(), saved.views, dy.view(), dy.view());
  EXPECT_TRUE(same_bits(dy, got));
  TestMatrix alone = matrix_of(s.dy);
  f.layer.backward(run, alone.view(), x.view(), saved.views, alone.view());
  EXPECT_TRUE(same_bits(to_tensor(alone.view()), dx));
}

TEST(LayerNorm, gradients_are_added_to_and_dx_overwritten) {
  const Case c{200, 13};
  Fixture f(c);
  const TestMatrix x = TestMatrix::random(200, 13, 1), dy = TestMatrix::random(200, 13, 2);
  TestMatrix y(200, 13), dx(200, 13), again = TestMatrix::random(200, 13, 3);
  auto saved = place([&](Arena& arena) { return f.layer.plan(arena, 200); });
  const Runtime run;
  f.layer.forward(run, x.view(), y.view(), saved.views);
  f.layer.backward(run, dy.view(), x.view(), saved.views, dx.view());
  Tensors once, twice;
  append_gradients(f.parameters, once);
  f.layer.backward(run, dy.view(), x.view(), saved.views, again.view());
  append_gradients(f.parameters, twice);
  EXPECT_TRUE(same_bits(dx, again));
  for (std::size_t i = 0; i < once.size(); ++i) {
    EXPECT_TRUE(same_bits(twice[i], reference::add(once[i], once[i])));
  }
}

TEST(LayerNorm, without_saving_and_in_place_has_the_same_bits) {
  const Case c{9, 70};
  Fixture f(c);
  const Subject s = f.subject(c);
  const Tensor want = s.run(Runtime()).y;
  const TestMatrix x = matrix_of(s.x[0], 3);
  TestMatrix y(9, 70), in_place = x;
  const Runtime run;
  f.layer.forward(run, x.view(), y.view());
  f.layer.forward(run, in_place.view(), in_place.view());
  EXPECT_TRUE(same_bits(to_tensor(y.view()), want));
  EXPECT_TRUE(same_bits(in_place, y));
}

TEST(LayerNorm, keeps_its_accuracy_far_from_zero) {
  // Mean 1e4, spread 1e-2: statistics in float would lose most of the gradient of the weight.
  const Case c{6, 48};
  Fixture f(c);
  Tensor x = random_tensor({6, 48}, 11, 1e-2);
  for (double& value : x) value = static_cast<float>(1e4 + value);
  const Subject s = subject_of(f.layer, f.parameters, x, random_tensor({6, 48}, 12));
  expect_is_the_textbook(s, textbook_of(c));
}

TEST(LayerNorm, registers_its_parameters_without_decay) {
  Fixture f({1, 3});
  ASSERT_EQ(f.parameters.count(), 2u);
  for (const char* name : {"ln_1.weight", "ln_1.bias"}) {
    const Parameter* p = f.parameters.find(name);
    ASSERT_NE(p, nullptr);
    EXPECT_EQ(p->shape, (std::vector<Index>{3}));
    EXPECT_FALSE(p->decays);
  }
  Fixture without({1, 3, 1e-5, false});
  EXPECT_EQ(without.parameters.count(), 1u);
}

TEST(LayerNorm, names_what_does_not_fit) {
  Fixture f({1, 3});
  const Runtime run;
  TestMatrix x3(5, 3), x4(5, 4), short3(2, 3);
  auto saved = place([&](Arena& arena) { return f.layer.plan(arena, 5); });
  expect_error<ShapeError>([&] { f.layer.forward(run, x4.view(), x4.view()); },
                           "LayerNorm 'ln_1': x: expected [N, 3], found [5, 4]");
  expect_error<ShapeError>([&] { f.layer.forward(run, x3.view(), short3.view()); },
                           "LayerNorm 'ln_1': y: expected [5, 3], found [2, 3]");
  expect_error<ShapeError>(
      [&] { f.layer.backward(run, x4.view(), x3.view(), saved.views, x3.view()); },
      "LayerNorm 'ln_1': dy: expected [5, 3], found [5, 4]");
  expect_error<ShapeError>(
      [&] { f.layer.backward(run, x3.view(), x3.view(), saved.views, short3.view()); },
      "LayerNorm 'ln_1': dx: expected [5, 3], found [2, 3]");
}

}  // namespace
}  // namespace prenorm
