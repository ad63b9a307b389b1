#include "prenorm/layers/multihead_attention.h"

#include "tests/layers/dropout_textbook.h"
#include "tests/layers/layer_test_util.h"
#include "tests/layers/mask_fixture.h"

namespace prenorm {
namespace {

struct Case {
  Index batch, time, heads, width;
  bool bias = true;
  double dropout = 0.0;
};
const Case kCases[] = {
    {1, 1, 1, 2},   {2, 5, 3, 21},        {3, 4, 1, 7, false},      {1, 70, 2, 10},
    {1, 130, 1, 4}, {4, 65, 1, 3, false}, {2, 9, 2, 8, true, 0.25}, {1, 70, 2, 6, false, 0.5}};

std::string name(const Case& c) {
  return "[" + std::to_string(c.batch) + ", " + std::to_string(c.time) + ", " +
         std::to_string(c.width) + "], heads " + std::to_string(c.heads);
}

kernels::AttentionDropout dropout_of(const Case& c) {
  kernels::AttentionDropout d;
  d.drop.stream = {7, Purpose::kAttentionDropout, 3, 1};
  d.drop.p = c.dropout;
  d.first_sequence = 5;
  return d;
}

struct Fixture {
  Case c;
  ParameterRegistry parameters;
  MultiheadAttention layer;
  explicit Fixture(const Case& c_) : c(c_), layer(parameters, "attn", c.width, c.heads, c.bias) {
    fill(parameters, 1);
  }
  auto placed() const {
    return place([&](Arena& arena) { return layer.plan(arena, c.batch, c.time); });
  }
  Subject subject() {
    const std::vector<Index> shape{c.batch, c.time, c.width};
    const Tensor x = random_tensor(shape, 11, 2.0), dy = random_tensor(shape, 12);
    Subject s{{x}, dy, {}};
    append_values(parameters, s.x);
    s.run = [this, x, dy](const Runtime& run) {
      auto saved = placed();
      const TestMatrix in = matrix_of(x, 3), din = matrix_of(dy, 1);
      TestMatrix y(x.rows(), c.width, 2), dx(x.rows(), c.width, 5);
      parameters.zero_grad();
      layer.forward(run, c.batch, c.time, in.view(), y.view(), saved.views, {}, dropout_of(c));
      layer.backward(run, c.batch, c.time, din.view(), in.view(), saved.views, dx.view(),
                     dropout_of(c));
      Outcome out{to_tensor(y.view()).reshaped(x.shape()),
                  {to_tensor(dx.view()).reshaped(x.shape())}};
      append_gradients(parameters, out.gradients);
      return out;
    };
    return s;
  }
};

template <typename S>
reference::AttentionParameters<S> parameters_of(const std::vector<reference::Tensor<S>>& in) {
  if (in.size() == 3) return {{in[1], {}}, {in[2], {}}};
  return {{in[1], in[2]}, {in[3], in[4]}};
}
auto textbook_of(const Case& c) {
  return [c](const auto& in) {
    const auto p = parameters_of(in);
    if (c.dropout > 0.0) {
      return multihead_attention_with_dropout(in[0], p, c.heads, dropout_of(c));
    }
    reference::MultiheadAttentionOptions options;
    options.core.heads = c.heads;
    return reference::multihead_attention(in[0], p, options);
  };
}

TEST(MultiheadAttention, is_the_textbook_and_backward_the_adjoint_of_forward) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(name(c));
    Fixture f(c);
    expect_is_the_textbook(f.subject(), textbook_of(c));
  }
}

TEST(MultiheadAttention, has_the_same_bits_on_every_target_and_thread_count) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(name(c));
    Fixture f(c);
    expect_same_bits_everywhere(f.subject());
  }
}

// The backward pass of the textbook with the gradient of the scores changed by `change`.
template <typename Change>
Tensors planted(const Subject& s, Index heads, const Change& change) {
  const reference::LinearParameters<double> c_attn{s.x[1], s.x[2]}, c_proj{s.x[3], s.x[4]};
  reference::AttentionOptions core;
  core.heads = heads;
  const Tensor qkv = reference::linear(s.x[0], c_attn);
  const Tensor o = reference::attention(qkv, core);
  auto [d_o, dproj] = reference::linear_backward(s.dy, o, c_proj);
  Tensor dqkv = reference::attention_backward(d_o, qkv, core);
  change(dqkv);
  auto [dx, dattn] = reference::linear_backward(dqkv, s.x[0], c_attn);
  return {dx, dattn.weight, dattn.bias, dproj.weight, dproj.bias};
}

TEST(MultiheadAttention, with_masks_is_the_textbook_with_the_same_masks) {
  const Index batch = 2, heads = 2, width = 6;
  for (bool causal : {true, false}) {
    for (Index time : {7, 70}) {
      SCOPED_TRACE(time);
      const MaskFixture masks(batch, heads, time);
      ParameterRegistry parameters;
      MultiheadAttention layer(parameters, "attn", width, heads, true, causal);
      fill(parameters, 1);
      const std::vector<Index> shape{batch, time, width};
      const Tensor x = random_tensor(shape, 11, 2.0), dy = random_tensor(shape, 12);
      Subject s{{x}, dy, {}};
      append_values(parameters, s.x);
      s.run = [&](const Runtime& run) {
        auto saved = place([&](Arena& arena) { return layer.plan(arena, batch, time); });
        const TestMatrix in = matrix_of(x), din = matrix_of(dy);
        TestMatrix y(x.rows(), width), dx(x.rows(), width);
        parameters.zero_grad();
        layer.forward(run, batch, time, in.view(), y.view(), saved.views, {}, {}, masks.mask);
        layer.backward(run, batch, time, din.view(), in.view(), saved.views, dx.view(), {},
                       masks.mask);
        Outcome out{to_tensor(y.view()).reshaped(shape), {to_tensor(dx.view()).reshaped(shape)}};
        append_gradients(parameters, out.gradients);
        return out;
      };
      expect_is_the_textbook(s, [&](const auto& in) {
        reference::MultiheadAttentionOptions options;
        options.core.heads = heads;
        options.core.causal = causal;
        return reference::multihead_attention(in[0], parameters_of(in), options, masks.textbook);
      });
    }
  }
}

TEST(MultiheadAttention, a_missing_scale_and_a_missing_key_gradient_are_found) {
  const Case c{2, 6, 2, 8};
  Fixture f(c);
  const Subject s = f.subject();
  const auto error = [&](const auto& change) {
    return adjoint_error(textbook_of(c), s, planted(s, c.heads, change));
  };
  EXPECT_LE(error([](Tensor&) {}), tolerance::kAdjointDouble);
  EXPECT_GT(error([&](Tensor& dqkv) {  // the scores' 1/√D forgotten
              for (Index n = 0; n < dqkv.rows(); ++n) {
                for (Index i = 0; i < 2 * c.width; ++i) dqkv(n, i) *= 2.0;
              }
            }),
            tolerance::kPlantedBug);
  EXPECT_GT(error([&](Tensor& dqkv) {  // keys taken for constants
              for (Index n = 0; n < dqkv.rows(); ++n) {
                for (Index i = 0; i < c.width; ++i) dqkv(n, c.width + i) = 0.0;
              }
            }),
            tolerance::kPlantedBug);
}

TEST(MultiheadAttention, without_dropout_in_the_backward_pass_a_gradient_is_found_wrong) {
  const Case c{2, 9, 2, 8, true, 0.25}, without{2, 9, 2, 8, true};
  Fixture f(c), g(without);
  const Tensors bug = g.subject().run(Runtime()).gradients;
  EXPECT_GT(adjoint_error(textbook_of(c), f.subject(), bug), tolerance::kPlantedBug);
}

TEST(MultiheadAttention, adds_a_residual_and_dx_may_take_the_place_of_x) {
  const Case c{2, 11, 3, 12};
  Fixture f(c);
  const Subject s = f.subject();
  const Outcome want = s.run(Runtime());
  auto saved = f.placed();
  TestMatrix x = matrix_of(s.x[0]), y(22, 12), expected(22, 12);
  const TestMatrix dy = matrix_of(s.dy), residual = TestMatrix::random(22, 12, 4, 1);
  const Runtime run;
  f.layer.forward(run, 2, 11, x.view(), y.view(), saved.views, residual.view(), {});
  for (Index r = 0; r < 22; ++r) {
    for (Index i = 0; i < 12; ++i) {
      expected.at(r, i) = residual.at(r, i) + static_cast<float>(want.y(r, i));
    }
  }
  EXPECT_TRUE(same_bits(y, expected));
  f.parameters.zero_grad();
  f.layer.backward(run, 2, 11, dy.view(), x.view(), saved.views, x.view(), {});
  Outcome got{want.y, {to_tensor(x.view()).reshaped({2, 11, 12})}};
  append_gradients(f.parameters, got.gradients);
  expect_same_bits(got, want);
}

TEST(MultiheadAttention, the_cache_gives_the_bits_of_the_whole_sequence) {
  const Case c{1, 80, 2, 14};
  on_every_runtime([&](const Runtime& run) {
    Fixture f(c);
    const Subject s = f.subject();
    const TestMatrix x = matrix_of(s.x[0]);
    const Tensor want = s.run(run).y;
    for (bool packed : {false, true}) {
      if (packed) f.layer.pack(run);
      for (Index piece : {1, 7, 64, 80}) {
        kernels::KvCache cache(1, c.heads, f.layer.head_width(), c.time);
        TestMatrix y(80, 14), qkv(80, 42), attended(80, 14);
        for (Index past = 0; past < c.time; past += piece) {
          const Index n = std::min(piece, c.time - past);
          f.layer.forward_cached(run, 1, n, past, x.view().rows(past, n), y.view().rows(past, n),
                                 {}, cache, qkv.view().rows(0, n), attended.view().rows(0, n));
        }
        EXPECT_TRUE(same_bits(to_tensor(y.view()).reshaped(want.shape()), want))
            << "pieces of " << piece;
      }
    }
  });
}

TEST(MultiheadAttention, refuses_heads_that_do_not_divide_the_width) {
  ParameterRegistry parameters;
  expect_error<ConfigError>([&] { MultiheadAttention(parameters, "attn", 10, 3); },
                            "n_head: expected a number of heads that divides n_embd = 10, found 3");
  expect_error<ConfigError>([&] { MultiheadAttention(parameters, "attn", 10, 0); },
                            "n_head: expected a number of heads that divides n_embd = 10, found 0");
  EXPECT_EQ(parameters.count(), 0u);
}

TEST(MultiheadAttention, names_what_does_not_fit) {
  Fixture f({1, 5, 1, 3});
  const Runtime run;
  TestMatrix x3(5, 3), x4(5, 4);
  auto saved = f.placed();
  expect_error<ShapeError>(
      [&] { f.layer.forward(run, 1, 5, x4.view(), x3.view(), saved.views, {}, {}); },
      "Linear 'attn.c_attn': x: expected [N, 3], found [5, 4]");
  expect_error<ShapeError>(
      [&] { f.layer.forward(run, 1, 5, x3.view(), x4.view(), saved.views, {}, {}); },
      "Linear 'attn.c_proj': y: expected [5, 3], found [5, 4]");
  const MaskFixture masks(1, 1, 4);
  kernels::AttentionMask mask;
  mask.added = masks.mask.added;
  expect_error<ShapeError>(
      [&] { f.layer.forward(run, 1, 5, x3.view(), x3.view(), saved.views, {}, {}, mask); },
      "MultiheadAttention 'attn': attn_mask: expected [1, 1, 5, 5], found [1, 1, 4, 4]");
  mask = {{}, masks.mask.key_blocked};
  expect_error<ShapeError>(
      [&] { f.layer.forward(run, 1, 5, x3.view(), x3.view(), saved.views, {}, {}, mask); },
      "MultiheadAttention 'attn': key_padding_mask: expected [1, 5], found [1, 4]");
}

}  // namespace
}  // namespace prenorm
