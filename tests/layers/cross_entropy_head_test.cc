#include "prenorm/layers/cross_entropy_head.h"

#include "tests/layers/layer_test_util.h"

namespace prenorm {
namespace {

constexpr double kScale = 1.0 / 3.0;

struct Case {
  Index rows, vocabulary, width;
  Index ignored = 0;  // every n-th target is ignored; 0: none
};
const Case kCases[] = {{1, 2, 1},       {5, 7, 33},      {4, 300, 5, 2},
                       {256, 19, 8, 5}, {515, 11, 6, 3}, {3, 1000, 17}};

struct Fixture {
  Case c;
  ParameterRegistry parameters;
  Parameter& weight;
  CrossEntropyHead layer;
  std::vector<TokenId> targets;
  explicit Fixture(const Case& c_)
      : c(c_), weight(parameters.add("lm_head.weight", {c.vocabulary, c.width})), layer(weight) {
    fill(parameters, 1);
    for (Index n = 0; n < c.rows; ++n) {
      const bool ignore = c.ignored > 0 && n % c.ignored == 0;
      targets.push_back(ignore ? -1 : static_cast<TokenId>(n * 7 % c.vocabulary));
    }
  }
  View<const TokenId, 1> labels() const { return {targets.data(), {c.rows}}; }
  auto scratch() const {
    return place([&](Arena& arena) { return layer.plan(arena, c.rows); });
  }
  // y is Σ loss, and so dy the scale.
  Subject subject() {
    const Tensor x = random_tensor({c.rows, c.width}, 11, 2.0);
    Subject s{{x}, Tensor::filled({1}, kScale), {}};
    append_values(parameters, s.x);
    s.run = [this, x](const Runtime& run) {
      auto memory = scratch();
      const TestMatrix in = matrix_of(x, 3);
      TestMatrix dx(c.rows, c.width, 2);
      parameters.zero_grad();
      const LossSum loss =
          layer.forward_backward(run, in.view(), labels(), kScale, dx.view(), memory.views);
      Outcome out{Tensor::filled({1}, loss.loss), {to_tensor(dx.view())}};
      append_gradients(parameters, out.gradients);
      return out;
    };
    return s;
  }
  auto textbook() const {
    return [t = reference::Tokens({c.rows}, targets)](const auto& in) {
      auto losses = reference::cross_entropy(reference::vocabulary_projection(in[0], in[1]), t);
      for (Index n = 1; n < losses.size(); ++n) losses[0] += losses[n];
      return std::decay_t<decltype(losses)>({1}, {losses[0]});
    };
  }
};

TEST(CrossEntropyHead, is_the_textbook_and_backward_the_adjoint_of_forward) {
  for (const Case& c : kCases) {
    SCOPED_TRACE("rows " + std::to_string(c.rows) + " vocabulary " + std::to_string(c.vocabulary));
    Fixture f(c);
    expect_is_the_textbook(f.subject(), f.textbook());
  }
}

TEST(CrossEntropyHead, has_the_same_bits_on_every_target_and_thread_count) {
  for (const Case& c : kCases) {
    Fixture f(c);
    expect_same_bits_everywhere(f.subject());
  }
}

TEST(CrossEntropyHead, a_gradient_without_the_target_or_with_ignored_rows_is_found) {
  Fixture f({8, 5, 6, 4});
  const Subject s = f.subject();
  const Tensor logits = reference::vocabulary_projection(s.x[0], s.x[1]);
  const auto error = [&](const auto& change) {
    Tensor dz =
        reference::cross_entropy_backward(logits, reference::Tokens({8}, f.targets), kScale);
    change(dz);
    auto [dx, dw] = reference::vocabulary_projection_backward(dz, s.x[0], s.x[1]);
    return adjoint_error(f.textbook(), s, {dx, dw});
  };
  EXPECT_LE(error([](Tensor&) {}), tolerance::kAdjointDouble);
  EXPECT_GT(error([&](Tensor& dz) {  // softmax alone
              for (Index n = 0; n < 8; ++n) {
                const TokenId target = f.targets[static_cast<std::size_t>(n)];
                if (target >= 0) dz(n, target) += kScale;
              }
            }),
            tolerance::kPlantedBug);
  EXPECT_GT(error([&](Tensor& dz) {  // an ignored row that counts
              for (Index v = 0; v < 5; ++v) dz(4, v) = kScale * reference::softmax(logits)(4, v);
            }),
            tolerance::kPlantedBug);
}

TEST(CrossEntropyHead, forward_gives_the_loss_of_forward_backward_and_counts_the_targets) {
  for (const Case& c : kCases) {
    Fixture f(c);
    const Subject s = f.subject();
    const TestMatrix x = matrix_of(s.x[0]);
    auto memory = f.scratch();
    const LossSum loss = f.layer.forward(Runtime(), x.view(), f.labels(), memory.views);
    TestMatrix dx(c.rows, c.width);
    const LossSum with_gradients =
        f.layer.forward_backward(Runtime(), x.view(), f.labels(), 1.0, dx.view(), memory.views);
    EXPECT_EQ(loss.loss, with_gradients.loss);
    EXPECT_EQ(loss.count, with_gradients.count);
    EXPECT_EQ(loss.count, c.rows - std::count(f.targets.begin(), f.targets.end(), -1));
    EXPECT_EQ(loss.mean(), loss.loss / static_cast<double>(loss.count));
  }
}

TEST(CrossEntropyHead, ignored_targets_give_no_loss_and_no_gradient) {
  Fixture f({9, 5, 6, 1});
  const Outcome out = f.subject().run(Runtime());
  EXPECT_EQ(out.y[0], 0.0);
  for (const Tensor& gradient : out.gradients) {
    for (double g : gradient) EXPECT_EQ(g, 0.0);
  }
}

TEST(CrossEntropyHead, logits_are_the_textbooks_and_keep_their_bits_when_packed) {
  Fixture f({37, 300, 19});
  const Subject s = f.subject();
  const TestMatrix x = matrix_of(s.x[0], 2);
  on_every_runtime([&](const Runtime& run) {
    TestMatrix plain(37, 300), packed(37, 300, 4), one(1, 300);
    Fixture g(f.c);
    g.layer.logits(run, x.view(), plain.view());
    expect_close(to_tensor(plain.view()), reference::vocabulary_projection(s.x[0], s.x[1]));
    g.layer.pack(run);
    g.layer.logits(run, x.view(), packed.view());
    EXPECT_TRUE(same_bits(plain, packed));
    g.layer.logits(run, x.view().rows(20, 1), one.view());
    EXPECT_EQ(0, std::memcmp(one.data.data(), plain.view()[20].data(), 300 * sizeof(float)));
  });
}

TEST(CrossEntropyHead, halves_of_a_multiple_of_256_rows_add_up_to_the_same_gradient) {
  Fixture f({768, 21, 10, 7});
  const TestMatrix x = TestMatrix::random(768, 10, 1);
  TestMatrix whole(768, 10), parts(768, 10);
  auto memory = f.scratch();
  const Runtime run;
  f.layer.forward_backward(run, x.view(), f.labels(), kScale, whole.view(), memory.views);
  Tensors once, twice;
  append_gradients(f.parameters, once);
  f.parameters.zero_grad();
  for (const auto& [first, rows] : {std::pair<Index, Index>{0, 512}, {512, 256}}) {
    f.layer.forward_backward(run, x.view().rows(first, rows), f.labels().rows(first, rows), kScale,
                             parts.view().rows(first, rows), memory.views);
  }
  append_gradients(f.parameters, twice);
  EXPECT_TRUE(same_bits(whole, parts));
  EXPECT_TRUE(same_bits(once[0], twice[0]));
}

TEST(CrossEntropyHead, names_what_does_not_fit) {
  Fixture f({4, 5, 6});
  auto memory = f.scratch();
  const Runtime run;
  TestMatrix x(4, 6), narrow(4, 5), few(3, 6), logits(4, 4);
  expect_error<ShapeError>([&] { f.layer.forward(run, narrow.view(), f.labels(), memory.views); },
                           "CrossEntropyHead 'lm_head.weight': x: expected [4, 6], found [4, 5]");
  expect_error<ShapeError>([&] { f.layer.forward(run, few.view(), f.labels(), memory.views); },
                           "CrossEntropyHead 'lm_head.weight': x: expected [4, 6], found [3, 6]");
  expect_error<ShapeError>(
      [&] { f.layer.forward_backward(run, x.view(), f.labels(), 1.0, few.view(), memory.views); },
      "CrossEntropyHead 'lm_head.weight': dx: expected [4, 6], found [3, 6]");
  expect_error<ShapeError>(
      [&] { f.layer.logits(run, x.view(), logits.view()); },
      "CrossEntropyHead 'lm_head.weight': logits: expected [4, 5], found [4, 4]");
  for (TokenId wrong : {5, -2}) {
    f.targets[2] = wrong;
    expect_error<ShapeError>([&] { f.layer.forward(run, x.view(), f.labels(), memory.views); },
                             "CrossEntropyHead 'lm_head.weight': expected targets in [0, 5) or "
                             "-1, found " +
                                 std::to_string(wrong) + " at 2");
  }
}

}  // namespace
}  // namespace prenorm
