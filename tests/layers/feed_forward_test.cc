#include "prenorm/layers/feed_forward.h"

#include "tests/layers/layer_test_util.h"

namespace prenorm {
namespace {

struct Case {
  Index rows, width, inner;
  Activation activation;
  bool bias = true;
};
const Case kCases[] = {{1, 1, 1, Activation::kGelu},         {5, 7, 29, Activation::kRelu},
                       {5, 7, 29, Activation::kGelu},        {5, 7, 29, Activation::kGeluTanh},
                       {3, 20, 6, Activation::kRelu, false}, {270, 9, 36, Activation::kGelu, false},
                       {270, 9, 36, Activation::kGeluTanh}};

struct Fixture {
  ParameterRegistry parameters;
  FeedForward layer;
  explicit Fixture(const Case& c)
      : layer(parameters, "mlp", c.width, c.inner, c.activation, c.bias) {
    fill(parameters, 1);
  }
  Subject subject(const Case& c) {
    return subject_of(layer, parameters, random_tensor({c.rows, c.width}, 11, 2.0),
                      random_tensor({c.rows, c.width}, 12));
  }
};

template <typename S>
reference::FeedForwardParameters<S> parameters_of(const std::vector<reference::Tensor<S>>& in) {
  if (in.size() == 3) return {{in[1], {}}, {in[2], {}}};
  return {{in[1], in[2]}, {in[3], in[4]}};
}
auto textbook_of(const Case& c) {
  return [act = textbook(c.activation)](const auto& in) {
    reference::FeedForwardOptions options;
    options.act.kind = act;
    return reference::feed_forward(in[0], parameters_of(in), options);
  };
}

TEST(FeedForward, is_the_textbook_and_backward_the_adjoint_of_forward) {
  for (const Case& c : kCases) {
    SCOPED_TRACE("activation " + std::string(activation_name(c.activation)) + " rows " +
                 std::to_string(c.rows));
    Fixture f(c);
    expect_is_the_textbook(f.subject(c), textbook_of(c));
  }
}

TEST(FeedForward, has_the_same_bits_on_every_target_and_thread_count) {
  for (const Case& c : kCases) {
    Fixture f(c);
    expect_same_bits_everywhere(f.subject(c));
  }
}

TEST(FeedForward, a_missing_or_a_wrong_derivative_of_the_activation_is_found) {
  for (Activation act : {Activation::kRelu, Activation::kGelu, Activation::kGeluTanh}) {
    const Case c{4, 6, 24, act};
    Fixture f(c);
    const Subject s = f.subject(c);
    const auto p = parameters_of(s.x);
    const Tensor a = reference::linear(s.x[0], p.c_fc);
    const Tensor h = reference::activation(a, {.kind = textbook(act)});
    const Tensor dh = reference::linear_backward(s.dy, h, p.c_proj).dx;
    // The two GELUs differ by less than 1e-3 and are still told apart.
    const auto other =
        act == Activation::kGelu ? reference::Activation::kGeluTanh : reference::Activation::kGelu;
    for (const Tensor& da : {dh, reference::activation_backward(dh, a, {.kind = other})}) {
      Tensors bug = s.run(Runtime()).gradients;
      auto [dx, dc_fc] = reference::linear_backward(da, s.x[0], p.c_fc);
      bug[0] = dx;
      bug[1] = dc_fc.weight;
      bug[2] = dc_fc.bias;
      EXPECT_GT(adjoint_error(textbook_of(c), s, bug), tolerance::kPlantedBug);
    }
  }
}

TEST(FeedForward, dx_may_take_the_place_of_x) {
  const Case c{30, 10, 40, Activation::kGeluTanh};
  Fixture f(c);
  const Subject s = f.subject(c);
  const Outcome want = s.run(Runtime());
  TestMatrix x = matrix_of(s.x[0]), y(30, 10);
  const TestMatrix dy = matrix_of(s.dy);
  auto saved = place([&](Arena& arena) { return f.layer.plan(arena, 30); });
  const Runtime run;
  f.layer.forward(run, x.view(), y.view(), saved.views);
  f.parameters.zero_grad();
  f.layer.backward(run, dy.view(), x.view(), saved.views, x.view());
  Outcome got{to_tensor(y.view()), {to_tensor(x.view())}};
  append_gradients(f.parameters, got.gradients);
  expect_same_bits(got, want);
}

TEST(FeedForward, layers_may_share_the_scratch_of_both_passes) {
  const Case c{20, 8, 32, Activation::kGelu};
  Fixture first(c), second(c);
  const Subject s = first.subject(c);
  const Outcome want = s.run(Runtime());
  const TestMatrix x = matrix_of(s.x[0]), dy = matrix_of(s.dy);
  const TestMatrix other = TestMatrix::random(20, 8, 5);
  TestMatrix y(20, 8), dx(20, 8);
  auto mine = place([&](Arena& arena) { return first.layer.plan(arena, 20); });
  auto theirs = place([&](Arena& arena) { return second.layer.plan(arena, 20); });
  theirs.views.activated = mine.views.activated;
  theirs.views.gradient = mine.views.gradient;
  const Runtime run;
  first.parameters.zero_grad();
  first.layer.forward(run, x.view(), y.view(), mine.views);
  second.layer.forward(run, other.view(), dx.view(), theirs.views);
  second.layer.backward(run, dy.view(), other.view(), theirs.views, dx.view());
  first.layer.backward(run, dy.view(), x.view(), mine.views, dx.view());
  Outcome got{to_tensor(y.view()), {to_tensor(dx.view())}};
  append_gradients(first.parameters, got.gradients);
  expect_same_bits(got, want);
}

TEST(FeedForward, adds_a_residual_and_keeps_its_bits_when_packed) {
  const Case c{7, 12, 48, Activation::kGelu};
  Fixture f(c);
  const Subject s = f.subject(c);
  const Tensor plain = s.run(Runtime()).y;
  const TestMatrix x = matrix_of(s.x[0]), residual = TestMatrix::random(7, 12, 3, 2);
  TestMatrix y(7, 12), expected(7, 12), packed(7, 12);
  auto saved = place([&](Arena& arena) { return f.layer.plan(arena, 7); });
  const Runtime run;
  f.layer.forward(run, x.view(), y.view(), saved.views, residual.view());
  for (Index r = 0; r < 7; ++r) {
    for (Index i = 0; i < 12; ++i) {
      expected.at(r, i) = residual.at(r, i) + static_cast<float>(plain(r, i));
    }
  }
  EXPECT_TRUE(same_bits(y, expected));
  f.layer.pack(run);
  f.layer.forward(run, x.view(), packed.view(), saved.views, residual.view());
  EXPECT_TRUE(same_bits(packed, expected));
}

TEST(FeedForward, names_what_does_not_fit) {
  Fixture f({5, 3, 8, Activation::kRelu});
  const Runtime run;
  TestMatrix x3(5, 3), x4(5, 4), y3(5, 3);
  auto saved = place([&](Arena& arena) { return f.layer.plan(arena, 5); });
  expect_error<ShapeError>([&] { f.layer.forward(run, x4.view(), y3.view(), saved.views); },
                           "Linear 'mlp.c_fc': x: expected [N, 3], found [5, 4]");
  expect_error<ShapeError>([&] { f.layer.forward(run, x3.view(), x4.view(), saved.views); },
                           "Linear 'mlp.c_proj': y: expected [5, 3], found [5, 4]");
  expect_error<ShapeError>(
      [&] { f.layer.backward(run, x4.view(), x3.view(), saved.views, y3.view()); },
      "Linear 'mlp.c_proj': dy: expected [5, 3], found [5, 4]");
}

}  // namespace
}  // namespace prenorm
