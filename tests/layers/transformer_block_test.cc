#include "prenorm/layers/transformer_block.h"

#include <limits>
#include <optional>

#include "tests/layers/dropout_textbook.h"
#include "tests/layers/layer_test_util.h"
#include "tests/layers/mask_fixture.h"

namespace prenorm {
namespace {

constexpr auto kPre = NormPlacement::kPre, kPost = NormPlacement::kPost;

struct Case {
  Index batch, time, heads, width, inner;
  NormPlacement norm;
  Activation activation = Activation::kGeluTanh;
  bool bias = true;
  double attn_pdrop = 0.0, resid_pdrop = 0.0;
  bool causal = true;
};
const Case kCases[] = {{2, 5, 3, 9, 29, kPre},
                       {2, 5, 3, 9, 29, kPost},
                       {1, 1, 1, 3, 2, kPre, Activation::kRelu},
                       {3, 4, 2, 10, 40, kPre, Activation::kGelu, false},
                       {3, 4, 2, 10, 40, kPost, Activation::kRelu, false},
                       {4, 70, 1, 7, 11, kPre},
                       {4, 70, 1, 7, 11, kPost, Activation::kGelu, false}};
const Case kDropoutCases[] = {{2, 6, 2, 8, 20, kPre, Activation::kGelu, true, 0.25, 0.0},
                              {2, 6, 2, 8, 20, kPre, Activation::kGelu, true, 0.0, 0.5},
                              {2, 67, 1, 5, 9, kPre, Activation::kGeluTanh, false, 0.2, 0.1},
                              {2, 67, 1, 5, 9, kPost, Activation::kGeluTanh, true, 0.2, 0.1}};

std::string name(const Case& c) {
  return std::string(norm_placement_name(c.norm)) + ", width " + std::to_string(c.width) +
         ", time " + std::to_string(c.time) + ", dropout " + std::to_string(c.attn_pdrop) + " " +
         std::to_string(c.resid_pdrop);
}

TransformerBlock::Options options_of(const Case& c) {
  return {.width = c.width,
          .heads = c.heads,
          .inner = c.inner,
          .norm = c.norm,
          .activation = c.activation,
          .eps = 1e-5,
          .bias = c.bias,
          .causal = c.causal,
          .attn_scale = {},
          .attn_pdrop = c.attn_pdrop,
          .resid_pdrop = c.resid_pdrop,
          .layer = 3};
}

constexpr TransformerBlock::DropoutPosition kPosition{.seed = 17, .step = 4, .first_sequence = 6};

struct Fixture {
  Case c;
  ParameterRegistry parameters;
  TransformerBlock block;
  explicit Fixture(const Case& c_) : c(c_), block(parameters, "h.0", options_of(c)) {
    fill(parameters, 1);
  }
  auto placed(Index batch, Index time) const {
    return place([&, batch, time](Arena& arena) {
      const auto shared = block.plan_shared(arena, batch, time, true);
      return block.plan(arena, batch, time, shared);
    });
  }
  Outcome run(const Runtime& run, const Tensor& x, const Tensor& dy,
              const TransformerBlock::DropoutPosition* at,
              const kernels::AttentionMask& mask = {}) {
    auto saved = placed(c.batch, c.time);
    const TestMatrix in = matrix_of(x);
    TestMatrix y(x.rows(), c.width, 2), dx = matrix_of(dy, 1);
    parameters.zero_grad();
    block.forward(run, c.batch, c.time, in.view(), y.view(), saved.views, at, mask);
    block.backward(run, c.batch, c.time, in.view(), saved.views, dx.view(), at, mask);
    Outcome out{to_tensor(y.view()).reshaped(x.shape()),
                {to_tensor(dx.view()).reshaped(x.shape())}};
    append_gradients(parameters, out.gradients);
    return out;
  }
  Subject subject(const TransformerBlock::DropoutPosition* at = &kPosition) {
    const std::vector<Index> shape{c.batch, c.time, c.width};
    Subject s{{random_tensor(shape, 11, 2.0)}, random_tensor(shape, 12), {}};
    append_values(parameters, s.x);
    s.run = [this, x = s.x[0], dy = s.dy, at](const Runtime& on) { return run(on, x, dy, at); };
    return s;
  }
  // The forward pass alone, of x [batch, time, C].
  TestMatrix forward(const Runtime& on, const TestMatrix& x, Index batch, Index time) const {
    auto saved = placed(batch, time);
    TestMatrix y(x.rows, c.width);
    block.forward(on, batch, time, x.view(), y.view(), saved.views);
    return y;
  }
};

template <typename S>
reference::BlockParameters<S> block_of(const std::vector<reference::Tensor<S>>& in, bool bias) {
  reference::BlockParameters<S> p;
  std::size_t next = 1;
  const auto visit = [&](const std::string& key, reference::Tensor<S>& tensor) {
    if (bias || key.ends_with(".weight")) tensor = in[next++];
  };
  reference::for_each_block_parameter(p, "", visit);
  return p;
}

reference::BlockOptions textbook_options(const Case& c) {
  reference::BlockOptions options;
  options.norm = textbook(c.norm);
  options.attn.core.heads = c.heads;
  options.attn.core.causal = c.causal;
  options.mlp.act.kind = textbook(c.activation);
  return options;
}

auto textbook_of(const Case& c) {
  return [c](const auto& in) {
    return reference::transformer_block(in[0], block_of(in, c.bias), textbook_options(c));
  };
}

// The same with the masks of kPosition.
auto textbook_with_dropout(const Case& c) {
  return [c](const auto& in) {
    return transformer_block_with_dropout(in[0], block_of(in, c.bias), textbook_options(c),
                                          options_of(c), kPosition);
  };
}

TEST(TransformerBlock, is_the_textbook_and_backward_the_adjoint_of_forward) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(name(c));
    Fixture f(c);
    expect_is_the_textbook(f.subject(nullptr), textbook_of(c));
  }
}

TEST(TransformerBlock, with_dropout_is_the_textbook_under_the_same_masks) {
  for (const Case& c : kDropoutCases) {
    SCOPED_TRACE(name(c));
    Fixture f(c);
    expect_is_the_textbook(f.subject(), textbook_with_dropout(c));
  }
}

TEST(TransformerBlock, with_masks_is_the_textbook_with_the_same_masks) {
  for (Case c : {kCases[0], kCases[1]}) {
    SCOPED_TRACE(name(c));
    for (bool causal : {true, false}) {
      c.causal = causal;
      Fixture f(c);
      const MaskFixture masks(c.batch, c.heads, c.time);
      Subject s = f.subject(nullptr);
      s.run = [&f, &masks, x = s.x[0], dy = s.dy](const Runtime& on) {
        return f.run(on, x, dy, nullptr, masks.mask);
      };
      expect_is_the_textbook(s, [&](const auto& in) {
        return reference::transformer_block(in[0], block_of(in, c.bias), textbook_options(c),
                                            masks.textbook);
      });
    }
  }
}

TEST(TransformerBlock, has_the_same_bits_on_every_target_and_thread_count) {
  for (const Case& c : {kCases[0], kCases[1], kCases[5], kDropoutCases[2], kDropoutCases[3]}) {
    SCOPED_TRACE(name(c));
    Fixture f(c);
    expect_same_bits_everywhere(f.subject());
  }
}

TEST(TransformerBlock, a_missing_residual_gradient_is_found) {
  for (NormPlacement norm : {kPre, kPost}) {
    const Case c{2, 5, 2, 8, 20, norm};
    Fixture f(c);
    const Subject s = f.subject();
    // Through the second residual connection: dh = dy + …  or  dh = LN2ᵀ(dy) + …
    const auto p = block_of(s.x, true);
    Tensor dsum = s.dy;
    if (norm == kPost) {
      const Tensor u = reference::add(
          s.x[0], reference::multihead_attention(s.x[0], p.attn, textbook_options(c).attn));
      const Tensor h = reference::layer_norm(u, p.ln_1);
      const Tensor w =
          reference::add(h, reference::feed_forward(h, p.mlp, textbook_options(c).mlp));
      dsum = reference::layer_norm_backward(s.dy, w, p.ln_2).dx;
    }
    Tensors bug = s.run(Runtime()).gradients;
    for (Index i = 0; i < dsum.size(); ++i) bug[0][i] -= dsum[i];
    EXPECT_GT(adjoint_error(textbook_of(c), s, bug), tolerance::kPlantedBug);
  }
}

TEST(TransformerBlock, a_mask_that_is_not_the_forward_passs_is_found) {
  const Case c = kDropoutCases[1];
  Fixture f(c);
  const Subject s = f.subject();
  auto other = kPosition;
  ++other.step;
  const Tensors bug = f.run(Runtime(), s.x[0], s.dy, &other).gradients;
  EXPECT_GT(adjoint_error(textbook_with_dropout(c), s, bug), tolerance::kPlantedBug);
}

TEST(TransformerBlock, dropout_of_zero_is_no_dropout_to_the_bit) {
  for (const Case& c : {kCases[0], kCases[1]}) {
    Fixture f(c);
    expect_same_bits(f.subject(&kPosition).run(Runtime()), f.subject(nullptr).run(Runtime()));
  }
}

TEST(TransformerBlock, the_masks_depend_on_seed_step_layer_and_sequence) {
  const Case c = kDropoutCases[1];
  Fixture f(c);
  const Subject s = f.subject();
  const Runtime run;
  const Tensor y = s.run(run).y;
  auto options = options_of(c);
  options.layer = 4;
  ParameterRegistry parameters;
  TransformerBlock other_layer(parameters, "h.0", options);
  fill(parameters, 1);
  auto saved = f.placed(c.batch, c.time);
  TestMatrix other(y.rows(), c.width);
  other_layer.forward(run, c.batch, c.time, matrix_of(s.x[0]).view(), other.view(), saved.views,
                      &kPosition);
  EXPECT_FALSE(same_bits(to_tensor(other.view()).reshaped(y.shape()), y));
  for (int field = 0; field < 3; ++field) {
    auto at = kPosition;
    at.seed += field == 0;
    at.step += field == 1;
    at.first_sequence += field == 2;
    EXPECT_FALSE(same_bits(f.run(run, s.x[0], s.dy, &at).y, y));
  }
}

TEST(TransformerBlock, with_sublayers_of_zero_the_pre_norm_block_returns_its_input) {
  for (bool bias : {true, false}) {
    const Case c{2, 70, 2, 12, 48, kPre, Activation::kGelu, bias};
    Fixture f(c);
    for (Parameter& p : f.parameters) {
      if (p.name.find("ln_") == std::string::npos) std::ranges::fill(p.value, 0.0f);
    }
    TestMatrix x = TestMatrix::random(140, 12, 1, 0, 100.0f);
    x.at(0, 0) = std::numeric_limits<float>::denorm_min();
    x.at(1, 1) = -1e30f;
    x.at(2, 2) = std::numeric_limits<float>::max();
    on_every_runtime(
        [&](const Runtime& run) { EXPECT_TRUE(same_bits(f.forward(run, x, 2, 70), x)); });
  }
}

TEST(TransformerBlock, a_token_changes_no_bit_of_the_rows_before_it) {
  for (NormPlacement norm : {kPre, kPost}) {
    const Case c{1, 90, 2, 12, 48, norm};
    Fixture f(c);
    const TestMatrix x = TestMatrix::random(90, 12, 1);
    TestMatrix changed = x;
    for (Index i = 0; i < 12; ++i) changed.at(66, i) = i == 5 ? 9.0f : -1.0f;
    on_every_runtime([&](const Runtime& run) {
      const TestMatrix before = f.forward(run, x, 1, 90), after = f.forward(run, changed, 1, 90);
      EXPECT_EQ(0, std::memcmp(before.data.data(), after.data.data(), 66 * 12 * sizeof(float)));
      for (Index t = 66; t < 90; ++t) {
        EXPECT_NE(0,
                  std::memcmp(before.view()[t].data(), after.view()[t].data(), 12 * sizeof(float)));
      }
    });
  }
}

TEST(TransformerBlock, a_sequence_alone_has_the_bits_it_has_in_a_batch) {
  for (NormPlacement norm : {kPre, kPost}) {
    const Case c{64, 7, 3, 15, 60, norm};
    Fixture f(c);
    const TestMatrix x = TestMatrix::random(64 * 7, 15, 1);
    on_every_runtime([&](const Runtime& run) {
      const TestMatrix all = f.forward(run, x, 64, 7);
      for (Index b : {0, 31, 63}) {
        TestMatrix one(7, 15);
        std::copy_n(x.view()[7 * b].data(), 7 * 15, one.data.data());
        const TestMatrix y = f.forward(run, one, 1, 7);
        EXPECT_EQ(0, std::memcmp(y.data.data(), all.view()[7 * b].data(), 7 * 15 * sizeof(float)));
      }
    });
  }
}

TEST(TransformerBlock, the_cache_gives_the_bits_of_the_whole_sequence) {
  for (NormPlacement norm : {kPre, kPost}) {
    const Case c{1, 70, 2, 10, 40, norm};
    on_every_runtime([&](const Runtime& run) {
      Fixture f(c);
      const TestMatrix x = TestMatrix::random(70, 10, 1);
      const TestMatrix want = f.forward(run, x, 1, 70);
      for (Index piece : {1, 33, 70}) {
        TestMatrix y = x;  // becomes the output in place
        kernels::KvCache cache(1, 2, 5, 70);
        for (Index past = 0; past < 70; past += piece) {
          const Index n = std::min<Index>(piece, 70 - past);
          auto saved = f.placed(1, n);
          f.block.forward_cached(run, 1, n, past, y.view().rows(past, n), cache, saved.views);
        }
        EXPECT_TRUE(same_bits(y, want)) << "pieces of " << piece;
      }
      f.block.pack(run);
      EXPECT_TRUE(same_bits(f.forward(run, x, 1, 70), want));
    });
  }
}

TEST(TransformerBlock, names_of_the_norm_placement_read_back) {
  for (NormPlacement norm : {kPre, kPost}) {
    EXPECT_EQ(norm_placement_from_name(norm_placement_name(norm)), norm);
  }
  EXPECT_EQ(norm_placement_from_name("none"), std::nullopt);
  EXPECT_EQ(norm_placement_from_name(""), std::nullopt);
}

TEST(TransformerBlock, names_what_does_not_fit) {
  Fixture f({2, 3, 1, 4, 8, kPre});
  auto saved = f.placed(2, 3);
  const Runtime run;
  TestMatrix x(6, 4), few(5, 4), narrow(6, 3);
  expect_error<ShapeError>([&] { f.block.forward(run, 2, 3, few.view(), x.view(), saved.views); },
                           "TransformerBlock 'h.0': x: expected [6, 4], found [5, 4]");
  expect_error<ShapeError>(
      [&] { f.block.forward(run, 2, 3, x.view(), narrow.view(), saved.views); },
      "TransformerBlock 'h.0': y: expected [6, 4], found [6, 3]");
  expect_error<ShapeError>([&] { f.block.backward(run, 2, 3, x.view(), saved.views, few.view()); },
                           "TransformerBlock 'h.0': dy: expected [6, 4], found [5, 4]");
  ParameterRegistry parameters;
  TransformerBlock::Options options;
  options.heads = 7;
  expect_error<ConfigError>(
      [&] { TransformerBlock(parameters, "h.0", options); },
      "n_head: expected a number of heads that divides n_embd = 768, found 7");
}

}  // namespace
}  // namespace prenorm
