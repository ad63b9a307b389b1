#include "prenorm/layers/linear.h"

#include "tests/layers/layer_test_util.h"

namespace prenorm {
namespace {

struct Case {
  Index rows, in, out;
  bool bias = true;
};
const Case kCases[] = {{1, 1, 1}, {5, 7, 3}, {300, 33, 17}, {2, 300, 65}, {257, 3, 50, false}};

struct Fixture {
  ParameterRegistry parameters;
  Linear layer;
  explicit Fixture(const Case& c) : layer(parameters, "c_fc", c.in, c.out, c.bias) {
    fill(parameters, 1);
  }
  Subject subject(const Case& c) {
    return subject_of(layer, parameters, random_tensor({c.rows, c.in}, 11),
                      random_tensor({c.rows, c.out}, 12));
  }
};

const auto kTextbook = [](const auto& in) {
  return reference::linear(in[0], {in[1], optional(in, 2)});
};

TEST(Linear, is_the_textbook_and_backward_the_adjoint_of_forward) {
  for (const Case& c : kCases) {
    SCOPED_TRACE("in " + std::to_string(c.in) + " out " + std::to_string(c.out));
    Fixture f(c);
    expect_is_the_textbook(f.subject(c), kTextbook);
  }
}

TEST(Linear, has_the_same_bits_on_every_target_and_thread_count) {
  for (const Case& c : kCases) {
    Fixture f(c);
    expect_same_bits_everywhere(f.subject(c));
  }
}

TEST(Linear, a_transposed_weight_in_the_backward_pass_is_found) {
  const Case c{5, 9, 9};
  Fixture f(c);
  const Subject s = f.subject(c);
  Tensors bug = s.run(Runtime()).gradients;
  bug[0] = reference::linear(s.dy, {s.x[1], {}});  // dy W in place of dy Wᵀ
  EXPECT_GT(adjoint_error(kTextbook, s, bug), tolerance::kPlantedBug);
  bug = s.run(Runtime()).gradients;
  bug[1] = reference::transposed(bug[1]);  // dyᵀ x in place of xᵀ dy
  EXPECT_GT(adjoint_error(kTextbook, s, bug), tolerance::kPlantedBug);
}

TEST(Linear, adds_to_the_gradients_and_overwrites_dx) {
  const Case c{100, 13, 21};
  Fixture f(c);
  const TestMatrix x = TestMatrix::random(c.rows, c.in, 1),
                   dy = TestMatrix::random(c.rows, c.out, 2);
  TestMatrix dx(c.rows, c.in), again = TestMatrix::random(c.rows, c.in, 3);
  const Runtime run;
  f.layer.backward(run, dy.view(), x.view(), {}, dx.view());
  Tensors once, twice;
  append_gradients(f.parameters, once);
  f.layer.backward(run, dy.view(), x.view(), {}, again.view());
  append_gradients(f.parameters, twice);
  EXPECT_TRUE(same_bits(dx, again));
  // Fewer than 128 rows are one sum, and g + g is exact.
  for (std::size_t i = 0; i < once.size(); ++i) {
    EXPECT_TRUE(same_bits(twice[i], reference::add(once[i], once[i])));
  }
}

TEST(Linear, adds_a_residual_and_its_own_bias) {
  const Case c{6, 10, 10};
  Fixture f(c);
  const TestMatrix x = TestMatrix::random(6, 10, 1), residual = TestMatrix::random(6, 10, 2, 3);
  const TestMatrix other_bias = TestMatrix::random(1, 10, 3);
  TestMatrix plain(6, 10), sum(6, 10), expected(6, 10);
  const Runtime run;
  f.layer.forward(run, x.view(), plain.view());
  kernels::Epilogue then;
  then.bias = other_bias.view()[0];
  then.residual = residual.view();
  f.layer.forward(run, x.view(), sum.view(), then);
  for (Index r = 0; r < 6; ++r) {
    for (Index i = 0; i < 10; ++i) expected.at(r, i) = residual.at(r, i) + plain.at(r, i);
  }
  EXPECT_TRUE(same_bits(sum, expected));
}

TEST(Linear, in_bfloat16_it_is_made_of_the_products_in_bfloat16) {
  using kernels::Bf16Role;
  const Case c{70, 50, 33};
  const TestMatrix x = TestMatrix::random(c.rows, c.in, 1);
  const TestMatrix dy = TestMatrix::random(c.rows, c.out, 2, 0, 1e-6f);
  for (const Products products : {Products::kBfloat16Dot, Products::kBfloat16Tile}) {
    Fixture f(c);
    Parameter& weight = *f.parameters.begin();
    const Runtime run;
    f.layer.set_products(products);
    f.layer.pack(run);  // is not used
    TestMatrix y(c.rows, c.out), dx(c.rows, c.in), want_y = y, want_dx = dx;
    TestMatrix want_dweight(c.in, c.out), dweight(c.in, c.out);
    f.layer.forward(run, x.view(), y.view());
    f.layer.backward(run, dy.view(), x.view(), {}, dx.view());
    kernels::Epilogue bias;
    bias.bias = std::next(f.parameters.begin())->vector();
    kernels::matmul_bf16(run, products, {x.view(), Bf16Role::kValue},
                         kernels::Right::plain(weight.matrix()), Bf16Role::kValue, want_y.view(),
                         bias);
    kernels::matmul_bf16(run, products, {dy.view(), Bf16Role::kGradient},
                         kernels::Right::transposed(weight.matrix()), Bf16Role::kValue,
                         want_dx.view(), {});
    kernels::matmul_transposed_accumulate_bf16(run, products, {x.view(), Bf16Role::kValue},
                                               {dy.view(), Bf16Role::kGradient},
                                               want_dweight.view());
    std::ranges::copy(weight.grad, dweight.data.begin());
    EXPECT_TRUE(same_bits(y, want_y));
    EXPECT_TRUE(same_bits(dx, want_dx));
    EXPECT_TRUE(same_bits(dweight, want_dweight));
  }
}

TEST(Linear, packed_gives_the_same_bits_until_the_weight_changes) {
  const Case c{9, 300, 70};
  on_every_runtime([&](const Runtime& run) {
    Fixture f(c);
    const TestMatrix x = TestMatrix::random(9, 300, 1);
    TestMatrix plain(9, 70), packed(9, 70), stale(9, 70), fresh(9, 70);
    f.layer.forward(run, x.view(), plain.view());
    f.layer.pack(run);
    f.layer.forward(run, x.view(), packed.view());
    EXPECT_TRUE(same_bits(plain, packed));
    for (float& w : f.parameters.begin()->value) w *= 2.0f;
    f.layer.forward(run, x.view(), stale.view());
    EXPECT_TRUE(same_bits(plain, stale));  // as documented: pack() again after a change
    f.layer.pack(run);
    f.layer.forward(run, x.view(), fresh.view());
    EXPECT_FALSE(same_bits(plain, fresh));
  });
}

TEST(Linear, registers_its_parameters_with_decay_for_the_weight_alone) {
  Fixture f({1, 3, 4});
  ASSERT_EQ(f.parameters.count(), 2u);
  const Parameter *weight = f.parameters.find("c_fc.weight"),
                  *bias = f.parameters.find("c_fc.bias");
  ASSERT_TRUE(weight != nullptr && bias != nullptr);
  EXPECT_EQ(weight->shape, (std::vector<Index>{3, 4}));
  EXPECT_EQ(bias->shape, (std::vector<Index>{4}));
  EXPECT_TRUE(weight->decays);
  EXPECT_FALSE(bias->decays);
  Fixture without({1, 3, 4, false});
  EXPECT_EQ(without.parameters.count(), 1u);
}

TEST(Linear, names_what_does_not_fit) {
  Fixture f({1, 3, 4});
  const Runtime run;
  TestMatrix x3(5, 3), x4(5, 4), short3(2, 3), short4(2, 4);
  expect_error<ShapeError>([&] { f.layer.forward(run, x4.view(), x4.view()); },
                           "Linear 'c_fc': x: expected [N, 3], found [5, 4]");
  expect_error<ShapeError>([&] { f.layer.forward(run, x3.view(), short4.view()); },
                           "Linear 'c_fc': y: expected [5, 4], found [2, 4]");
  expect_error<ShapeError>([&] { f.layer.backward(run, short4.view(), x3.view(), x3.view()); },
                           "Linear 'c_fc': dy: expected [5, 4], found [2, 4]");
  expect_error<ShapeError>([&] { f.layer.backward(run, x4.view(), x3.view(), short3.view()); },
                           "Linear 'c_fc': dx: expected [5, 3], found [2, 3]");
}

}  // namespace
}  // namespace prenorm
