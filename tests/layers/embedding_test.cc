#include "prenorm/layers/embedding.h"

#include "tests/layers/layer_test_util.h"

namespace prenorm {
namespace {

struct Case {
  Index batch, time, vocabulary, positions, width;
};
const Case kCases[] = {{1, 1, 1, 1, 1}, {2, 5, 7, 9, 33}, {4, 70, 5, 70, 17}, {1, 3, 300, 8, 4}};

std::vector<TokenId> tokens_of(const Case& c) {
  std::vector<TokenId> tokens;
  for (Index i = 0; i < c.batch * c.time; ++i) {
    tokens.push_back(static_cast<TokenId>(random_word({1, 2}, static_cast<std::uint64_t>(i)) %
                                          static_cast<std::uint32_t>(c.vocabulary)));
  }
  return tokens;
}

struct Fixture {
  Case c;
  std::vector<TokenId> tokens;
  ParameterRegistry parameters;
  Embedding layer;
  explicit Fixture(const Case& c_)
      : c(c_),
        tokens(tokens_of(c)),
        layer(parameters, "transformer", c.vocabulary, c.positions, c.width) {
    fill(parameters, 1);
  }
  TokenMatrix batch() const { return {tokens.data(), {c.batch, c.time}}; }
  Subject subject() {
    Subject s{{}, random_tensor({c.batch, c.time, c.width}, 12), {}};
    append_values(parameters, s.x);
    s.run = [this, dy = s.dy](const Runtime& run) {
      TestMatrix x(dy.rows(), c.width);
      const TestMatrix dx = matrix_of(dy);
      parameters.zero_grad();
      layer.forward(run, batch(), 0, x.view());
      layer.backward(run, batch(), dx.view());
      Outcome out{to_tensor(x.view()).reshaped(dy.shape()), {}};
      append_gradients(parameters, out.gradients);
      return out;
    };
    return s;
  }
  auto textbook() const {
    return [t = reference::Tokens({c.batch, c.time}, tokens)]<typename S>(
               const std::vector<reference::Tensor<S>>& in) {
      return reference::embedding(t, reference::EmbeddingParameters<S>{in[0], in[1]});
    };
  }
};

TEST(Embedding, is_the_textbook_and_backward_the_adjoint_of_forward) {
  for (const Case& c : kCases) {
    SCOPED_TRACE("vocabulary " + std::to_string(c.vocabulary));
    Fixture f(c);
    expect_is_the_textbook(f.subject(), f.textbook());
  }
}

TEST(Embedding, has_the_same_bits_on_every_target_and_thread_count) {
  for (const Case& c : kCases) {
    Fixture f(c);
    expect_same_bits_everywhere(f.subject());
  }
}

TEST(Embedding, a_token_that_overwrites_its_earlier_gradient_is_found) {
  Fixture f({2, 5, 3, 5, 6});  // ten tokens of three kinds
  const Subject s = f.subject();
  Tensors bug = s.run(Runtime()).gradients;
  for (Index n = 0; n < s.dy.rows(); ++n) {
    for (Index i = 0; i < 6; ++i) bug[0](f.tokens[static_cast<std::size_t>(n)], i) = s.dy(n, i);
  }
  EXPECT_GT(adjoint_error(f.textbook(), s, bug), tolerance::kPlantedBug);
  bug = s.run(Runtime()).gradients;
  for (Index t = 0; t < 5; ++t) {  // the last sequence alone
    for (Index i = 0; i < 6; ++i) bug[1](t, i) = s.dy(5 + t, i);
  }
  EXPECT_GT(adjoint_error(f.textbook(), s, bug), tolerance::kPlantedBug);
}

TEST(Embedding, is_one_float_addition_from_the_first_position_on) {
  Fixture f({2, 4, 7, 9, 5});
  TestMatrix x(8, 5);
  f.layer.forward(Runtime(), f.batch(), 3, x.view());
  const ConstMatrix wte = f.parameters.find("transformer.wte.weight")->matrix();
  const ConstMatrix wpe = f.parameters.find("transformer.wpe.weight")->matrix();
  for (Index n = 0; n < 8; ++n) {
    for (Index i = 0; i < 5; ++i) {
      EXPECT_EQ(x.at(n, i), wte[f.tokens[static_cast<std::size_t>(n)]][i] + wpe[3 + n % 4][i]);
    }
  }
}

TEST(Embedding, puts_the_tokens_gradient_where_it_is_told_to) {
  Fixture f({2, 5, 7, 9, 6});
  const Tensors want = f.subject().run(Runtime()).gradients;
  f.parameters.zero_grad();
  const TestMatrix dx = matrix_of(f.subject().dy);
  TestMatrix sums(7, 6);
  f.layer.backward(Runtime(), f.batch(), dx.view(), sums.view());
  EXPECT_TRUE(same_bits(to_tensor(sums.view()), want[0]));
  Tensors got;
  append_gradients(f.parameters, got);
  EXPECT_TRUE(same_bits(got[0], reference::zeros_like(got[0])));
  EXPECT_TRUE(same_bits(got[1], want[1]));
}

TEST(Embedding, adds_to_the_gradients) {
  Fixture f({2, 5, 7, 9, 6});
  TestMatrix dx = TestMatrix::random(10, 6, 1);
  for (float& x : dx.data) x = std::round(8.0f * x) / 8.0f;  // sums are exact in any order
  Tensors once, twice;
  f.layer.backward(Runtime(), f.batch(), dx.view());
  append_gradients(f.parameters, once);
  f.layer.backward(Runtime(), f.batch(), dx.view());
  append_gradients(f.parameters, twice);
  for (std::size_t i = 0; i < once.size(); ++i) {
    EXPECT_TRUE(same_bits(twice[i], reference::add(once[i], once[i])));
  }
}

TEST(Embedding, names_the_id_or_the_position_that_is_out_of_range) {
  Fixture f({2, 3, 7, 4, 5});
  TestMatrix x(6, 5);
  const Runtime run;
  expect_error<ShapeError>([&] { f.layer.forward(run, f.batch(), 2, x.view()); },
                           "Embedding 'wpe': expected at most 4 positions, found 5");
  EXPECT_NO_THROW(f.layer.forward(run, f.batch(), 1, x.view()));
  for (TokenId wrong : {7, -1, 2'000'000'000}) {
    f.tokens[4] = wrong;
    expect_error<ShapeError>([&] { f.layer.forward(run, f.batch(), 0, x.view()); },
                             "Embedding 'wte': expected token ids in [0, 7), found " +
                                 std::to_string(wrong) + " at [1, 1]");
  }
  f.tokens[4] = 6;
  TestMatrix narrow(6, 4);
  expect_error<ShapeError>([&] { f.layer.forward(run, f.batch(), 0, narrow.view()); },
                           "Embedding 'wte': x: expected [6, 5], found [6, 4]");
}

}  // namespace
}  // namespace prenorm
