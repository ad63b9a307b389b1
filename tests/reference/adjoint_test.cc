// The gradients of the textbook, proved: ⟨dy, J v⟩ from dual numbers equals ⟨backward(dy), v⟩ to
// 1e-12 for every layer, and a bug planted in each backward pass breaks it.
#include "prenorm/reference/adjoint.h"

#include <gtest/gtest.h>

#include "prenorm/reference/gpt.h"
#include "tests/reference/values.h"
#include "tests/tolerances.h"

namespace prenorm::reference {
namespace {

using Tensors = std::vector<Tensor<double>>;
using DualTensors = std::vector<Tensor<Dual<double>>>;

constexpr double kProved = tolerance::kAdjointDouble;
constexpr double kBroken = tolerance::kPlantedBug;

// The adjoint identity for one random direction and cotangent.
template <typename F>
double adjoint_error(const F& f, const Tensors& x, const Tensor<double>& dy, const Tensors& dx) {
  return check_adjoint(f, x, random_like(x, 40), dy, dx).relative_error();
}

TEST(Adjoint, a_check_of_nothing_does_not_pass) {
  const Tensor<double> zero({3});
  const auto f = [](const DualTensors& in) { return in[0]; };
  EXPECT_GT(adjoint_error(f, {zero}, zero, {zero}), 1.0);
}

TEST(Adjoint, a_nan_gradient_does_not_pass) {
  const Tensor<double> x = val(1, {3});
  const auto f = [](const DualTensors& in) { return in[0]; };
  EXPECT_LE(adjoint_error(f, {x}, x, {x}), kProved);
  Tensor<double> dx = x;
  dx[1] = std::nan("");
  EXPECT_GT(adjoint_error(f, {x}, x, {dx}), 1.0);
}

TEST(Adjoint, layer_norm) {
  const Tensors x{val(1, {5, 7}, 128), val(2, {7}), val(3, {7})};
  const Tensor<double> dy = val(4, {5, 7});
  const auto f = [](const DualTensors& in) {
    return layer_norm(in[0], {in[1], in[2]}, {.eps = 1e-3});
  };
  auto [dx, dp] = layer_norm_backward(dy, x[0], {x[1], x[2]}, {.eps = 1e-3});
  EXPECT_LE(adjoint_error(f, x, dy, {dx, dp.weight, dp.bias}), kProved);

  // Planted: x's own mean and variance taken for constants: dx = r g.
  Tensor<double> bug = dx;
  for (Index n = 0; n < 5; ++n) {
    double mean = 0.0, variance = 0.0;
    for (Index c = 0; c < 7; ++c) mean += x[0](n, c) / 7;
    for (Index c = 0; c < 7; ++c) variance += std::pow(x[0](n, c) - mean, 2) / 7;
    for (Index c = 0; c < 7; ++c) bug(n, c) = dy(n, c) * x[1][c] / std::sqrt(variance + 1e-3);
  }
  EXPECT_GT(adjoint_error(f, x, dy, {bug, dp.weight, dp.bias}), kBroken);
  // Planted: dγ = Σ dy ⊙ y in place of dy ⊙ x̂.
  const Tensor<double> y = layer_norm(x[0], {x[1], x[2]}, {.eps = 1e-3});
  Tensor<double> dweight({7});
  for (Index n = 0; n < 5; ++n) {
    for (Index c = 0; c < 7; ++c) dweight[c] += dy(n, c) * y(n, c);
  }
  EXPECT_GT(adjoint_error(f, x, dy, {dx, dweight, dp.bias}), kBroken);
}

TEST(Adjoint, layer_norm_without_weight_and_bias) {
  const Tensors x{val(1, {3, 4})};
  const Tensor<double> dy = val(4, {3, 4});
  const auto f = [](const DualTensors& in) { return layer_norm(in[0], {}); };
  EXPECT_LE(adjoint_error(f, x, dy, {layer_norm_backward(dy, x[0], {}).dx}), kProved);
}

TEST(Adjoint, linear) {
  const Tensors x{val(1, {3, 5}), val(2, {5, 5}), val(3, {5})};
  const Tensor<double> dy = val(4, {3, 5});
  const auto f = [](const DualTensors& in) { return linear(in[0], {in[1], in[2]}); };
  auto [dx, dp] = linear_backward(dy, x[0], {x[1], x[2]});
  EXPECT_LE(adjoint_error(f, x, dy, {dx, dp.weight, dp.bias}), kProved);

  // Planted: dx = dy W; the bias gradient of the last row only.
  const Tensor<double> bug = linear(dy, {x[1], {}});
  EXPECT_GT(adjoint_error(f, x, dy, {bug, dp.weight, dp.bias}), kBroken);
  const Tensor<double> last({5}, {dy(2, 0), dy(2, 1), dy(2, 2), dy(2, 3), dy(2, 4)});
  EXPECT_GT(adjoint_error(f, x, dy, {dx, dp.weight, last}), kBroken);
}

TEST(Adjoint, activation) {
  const Tensors x{val(1, {4, 64}, 128)};
  const Tensor<double> dy = val(2, {4, 64});
  for (const Activation kind :
       {Activation::kRelu, Activation::kGelu, Activation::kGeluTanh, Activation::kGeluQuick}) {
    const auto f = [kind](const DualTensors& in) { return activation(in[0], {.kind = kind}); };
    const Tensor<double> dx = activation_backward(dy, x[0], {.kind = kind});
    EXPECT_LE(adjoint_error(f, x, dy, {dx}), kProved);
    // Planted: the slope of another activation.
    const Activation other = kind == Activation::kGelu ? Activation::kGeluTanh : Activation::kGelu;
    const Tensor<double> bug = activation_backward(dy, x[0], {.kind = other});
    EXPECT_GT(adjoint_error(f, x, dy, {bug}), kBroken);
  }
}

struct NamedMask {
  const char* name;
  bool causal;
  AttentionMask mask;
};

// Every kind of mask; the last leaves the first query of each sequence no key.
std::vector<NamedMask> masks() {
  const Tensor<unsigned char> blocked({4, 4}, {0, 1, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 1, 0});
  const Tensor<unsigned char> padding({2, 4}, {0, 1, 0, 0, 0, 0, 0, 1});
  const Tensor<unsigned char> first({2, 4}, {1, 0, 0, 0, 1, 0, 1, 0});
  return {{"causal", true, {}},
          {"none", false, {}},
          {"blocked", false, {.blocked = blocked}},
          {"blocked and causal", true, {.blocked = blocked}},
          {"added", true, {.added = val(9, {4, 4})}},
          {"key padding", true, {.key_padding = padding}},
          {"a query without keys", true, {.key_padding = first}}};
}

TEST(Adjoint, attention) {
  const Tensors x{val(1, {2, 4, 18}, 256)};
  const Tensor<double> dy = val(2, {2, 4, 6});
  for (const NamedMask& one : masks()) {
    const AttentionOptions options{.heads = 3, .causal = one.causal};
    const auto f = [&](const DualTensors& in) { return attention(in[0], options, one.mask); };
    const Tensor<double> dx = attention_backward(dy, x[0], options, one.mask);
    EXPECT_LE(adjoint_error(f, x, dy, {dx}), kProved) << one.name;

    // Planted: the backward pass forgets the mask, or the scale.
    const Tensor<double> unmasked = attention_backward(dy, x[0], {.heads = 3, .causal = false});
    if (std::string_view(one.name) != "none") {
      EXPECT_GT(adjoint_error(f, x, dy, {unmasked}), kBroken) << one.name;
    }
    Tensor<double> unscaled = dx;
    for (Index n = 0; n < dx.rows(); ++n) {
      for (Index c = 0; c < 12; ++c) unscaled(n, c) *= std::sqrt(2.0);
    }
    EXPECT_GT(adjoint_error(f, x, dy, {unscaled}), kBroken) << one.name;
  }
}

// Planted: the softmax's row term left out, dscore = P ⊙ dP.
TEST(Adjoint, attention_without_the_softmax_row_term_is_caught) {
  const Tensors x{val(1, {3, 4}), val(2, {3, 4}), val(3, {3, 4})};
  const Tensor<double> dy = val(4, {3, 4});
  const auto f = [](const DualTensors& in) {
    return scaled_dot_product_attention(in[0], in[1], in[2]);
  };
  const HeadGradients<double> d = scaled_dot_product_attention_backward(dy, x[0], x[1], x[2]);
  EXPECT_LE(adjoint_error(f, x, dy, {d.dq, d.dk, d.dv}), kProved);

  const Tensor<double> p = attention_probabilities(x[0], x[1], {}, {}, 0);
  Tensor<double> dq({3, 4});
  for (Index t = 0; t < 3; ++t) {
    for (Index s = 0; s <= t; ++s) {
      double dp = 0.0;
      for (Index c = 0; c < 4; ++c) dp += dy(t, c) * x[2](s, c);
      for (Index c = 0; c < 4; ++c) dq(t, c) += p(t, s) * dp * x[1](s, c) / 2.0;
    }
  }
  EXPECT_GT(adjoint_error(f, x, dy, {dq, d.dk, d.dv}), kBroken);
}

TEST(Adjoint, multihead_attention) {
  const AttentionParameters<double> p = tiny_block().attn;
  const Tensors x{val(1, {2, 4, kWidth}), p.c_attn.weight, p.c_attn.bias, p.c_proj.weight,
                  p.c_proj.bias};
  const Tensor<double> dy = val(2, {2, 4, kWidth});
  const MultiheadAttentionOptions options = tiny_block_options().attn;
  const auto f = [&](const DualTensors& in) {
    return multihead_attention<Dual<double>>(in[0], {{in[1], in[2]}, {in[3], in[4]}}, options);
  };
  auto [dx, dp] = multihead_attention_backward(dy, x[0], p, options);
  EXPECT_LE(adjoint_error(f, x, dy,
                          {dx, dp.c_attn.weight, dp.c_attn.bias, dp.c_proj.weight, dp.c_proj.bias}),
            kProved);
  // Planted: c_proj's weight gradient transposed.
  EXPECT_GT(adjoint_error(f, x, dy,
                          {dx, dp.c_attn.weight, dp.c_attn.bias, transposed(dp.c_proj.weight),
                           dp.c_proj.bias}),
            kBroken);
}

TEST(Adjoint, feed_forward) {
  const FeedForwardParameters<double> p = tiny_block().mlp;
  const Tensors x{val(1, {4, kWidth}), p.c_fc.weight, p.c_fc.bias, p.c_proj.weight, p.c_proj.bias};
  const Tensor<double> dy = val(2, {4, kWidth});
  const auto f = [](const DualTensors& in) {
    return feed_forward<Dual<double>>(in[0], {{in[1], in[2]}, {in[3], in[4]}});
  };
  auto [dx, dp] = feed_forward_backward(dy, x[0], p);
  const Tensors right{dx, dp.c_fc.weight, dp.c_fc.bias, dp.c_proj.weight, dp.c_proj.bias};
  EXPECT_LE(adjoint_error(f, x, dy, right), kProved);

  // Planted: act' taken at the activation's result in place of its input.
  const Tensor<double> h = activation(linear(x[0], p.c_fc));
  const Tensor<double> dh = linear_backward(dy, h, p.c_proj).dx;
  auto [bug_dx, bug_dp] = linear_backward(activation_backward(dh, h), x[0], p.c_fc);
  EXPECT_GT(adjoint_error(f, x, dy,
                          {bug_dx, bug_dp.weight, bug_dp.bias, dp.c_proj.weight, dp.c_proj.bias}),
            kBroken);
}

// The same proof for a backward pass on floats, as a kernel's: its gradients are widened to double.
TEST(Adjoint, a_float_backward_pass_is_proved_to_float_precision) {
  const GptParameters<double> p = tiny_parameters();
  const Tokens tokens = tiny_tokens();
  const Tensor<double> dy = val(5, {2, 4, kVocabulary});
  const auto f = [&](const DualTensors& in) {
    return gpt(tokens, gpt_parameters(in, kLayers), tiny_options());
  };
  const auto d = gpt_backward(cast<float>(dy), tokens, cast<float>(p), tiny_options());
  const double error = adjoint_error(f, flattened(p), dy, flattened(cast<double>(d)));
  EXPECT_LE(error, tolerance::kAdjointFloat);
  EXPECT_GT(error, 0.0);
}

// The input and all parameters of a block, as check_adjoint takes them.
Tensors with_input(const Tensor<double>& x, const BlockParameters<double>& p) {
  Tensors all{x};
  for (const Tensor<double>& tensor : flattened(p)) all.push_back(tensor);
  return all;
}

TEST(Adjoint, transformer_block) {
  const BlockParameters<double> p = tiny_block();
  const Tensor<double> x = val(1, {2, 4, kWidth}), dy = val(2, {2, 4, kWidth});
  for (const NormPlacement norm : {NormPlacement::kPre, NormPlacement::kPost}) {
    for (const NamedMask& one : masks()) {
      BlockOptions options = tiny_block_options(norm);
      options.attn.core.causal = one.causal;
      const auto f = [&](const DualTensors& in) {
        return transformer_block(in[0], block_parameters(in, 1), options, one.mask);
      };
      const auto d = transformer_block_backward(dy, x, p, options, one.mask);
      EXPECT_LE(adjoint_error(f, with_input(x, p), dy, with_input(d.dx, d.dparameters)), kProved)
          << one.name;

      // Planted: the gradient along the residual connection left out; the other placement's.
      Tensor<double> no_residual = d.dx;
      for (Index i = 0; i < dy.size(); ++i) no_residual[i] -= dy[i];
      EXPECT_GT(adjoint_error(f, with_input(x, p), dy, with_input(no_residual, d.dparameters)),
                kBroken);
      options.norm = norm == NormPlacement::kPre ? NormPlacement::kPost : NormPlacement::kPre;
      const auto other = transformer_block_backward(dy, x, p, options, one.mask);
      options.norm = norm;
      EXPECT_GT(adjoint_error(f, with_input(x, p), dy, with_input(other.dx, other.dparameters)),
                kBroken);
    }
  }
}

TEST(Adjoint, embedding) {
  const Tokens tokens = tiny_tokens();
  const Tensors x{val(1, {kVocabulary, kWidth}), val(2, {kContext, kWidth})};
  const Tensor<double> dy = val(3, {2, 4, kWidth});
  const auto f = [&](const DualTensors& in) {
    return embedding<Dual<double>>(tokens, {in[0], in[1]});
  };
  const EmbeddingParameters<double> d = embedding_backward(dy, tokens, {x[0], x[1]});
  EXPECT_LE(adjoint_error(f, x, dy, {d.wte, d.wpe}), kProved);

  // Planted: a token that stands twice keeps its last gradient only (token 1, at places 1 and 3).
  Tensor<double> overwritten = d.wte;
  for (Index c = 0; c < kWidth; ++c) overwritten(1, c) = dy(3, c);
  EXPECT_GT(adjoint_error(f, x, dy, {overwritten, d.wpe}), kBroken);
}

TEST(Adjoint, vocabulary_projection) {
  const Tensors x{val(1, {2, 4, kWidth}), val(2, {kVocabulary, kWidth})};
  const Tensor<double> dy = val(3, {2, 4, kVocabulary});
  const auto f = [](const DualTensors& in) { return vocabulary_projection(in[0], in[1]); };
  auto [dx, dweight] = vocabulary_projection_backward(dy, x[0], x[1]);
  EXPECT_LE(adjoint_error(f, x, dy, {dx, dweight}), kProved);
  // Planted: a sign.
  for (double& element : dweight) element = -element;
  EXPECT_GT(adjoint_error(f, x, dy, {dx, dweight}), kBroken);
}

TEST(Adjoint, cross_entropy) {
  const Tokens targets = tiny_targets();
  const Tensors x{val(1, {8, kVocabulary}, 64)};
  const double scale = 1.0 / 6.0;
  const auto f = [&](const DualTensors& in) {
    Tensor<Dual<double>> losses = cross_entropy(in[0], targets);
    for (Dual<double>& loss : losses) loss = loss * scale;
    return losses;
  };
  const Tensor<double> ones = Tensor<double>::filled({8}, 1.0);
  const Tensor<double> dx = cross_entropy_backward(x[0], targets, scale);
  EXPECT_LE(adjoint_error(f, x, ones, {dx}), kProved);

  // Planted: softmax without the one at the target; the mean over all rows, ignored ones included.
  Tensor<double> no_one_hot = dx, mean_of_all = dx;
  for (Index n = 0; n < 8; ++n) {
    if (targets[n] != kIgnoreTarget) no_one_hot(n, targets[n]) += scale;
  }
  for (double& element : mean_of_all) element *= 6.0 / 8.0;
  EXPECT_GT(adjoint_error(f, x, ones, {no_one_hot}), kBroken);
  EXPECT_GT(adjoint_error(f, x, ones, {mean_of_all}), kBroken);
}

struct GptCase {
  const char* name;
  TinyModel model;
  GptSettings settings;
};

const GptCase kGpts[] = {
    {"pre-norm, tied", {}, {.n_layer = kLayers, .n_head = kHeads}},
    {"post-norm, tied",
     {},
     {.n_layer = kLayers,
      .n_head = kHeads,
      .norm = NormPlacement::kPost,
      .activation = Activation::kGelu}},
    {"pre-norm, untied, no biases",
     {.tied = false, .bias = false},
     {.n_layer = kLayers, .n_head = 1, .activation = Activation::kRelu, .tied = false}},
};

TEST(Adjoint, gpt_from_the_loss_to_every_parameter) {
  const Tokens tokens = tiny_tokens(), targets = tiny_targets();
  const Tensor<double> one({1}, std::vector<double>{1.0});
  for (const GptCase& c : kGpts) {
    const GptParameters<double> p = tiny_parameters(c.model);
    const GptOptions options = gpt_options(c.settings);
    const auto f = [&](const DualTensors& in) {
      const Dual<double> scale(1.0 / 6.0);
      const auto loss = gpt_loss(tokens, targets, scale, gpt_parameters(in, kLayers), options);
      return Tensor<Dual<double>>({1}, std::vector{loss});
    };
    const GptParameters<double> d = gpt_loss_backward(tokens, targets, 1.0 / 6.0, p, options);
    EXPECT_LE(adjoint_error(f, flattened(p), one, flattened(d)), kProved) << c.name;

    // Planted: the first block's gradient lost; the tied head's share of wte's gradient lost.
    GptParameters<double> bug = d;
    for (double& element : bug.h[0].attn.c_attn.weight) element = 0.0;
    EXPECT_GT(adjoint_error(f, flattened(p), one, flattened(bug)), kBroken) << c.name;
    if (!c.model.tied) continue;
    GptOptions untied = options;
    untied.tied = false;
    GptParameters<double> split = p;
    split.lm_head = p.embedding.wte;
    bug = gpt_loss_backward(tokens, targets, 1.0 / 6.0, split, untied);
    bug.lm_head = {};
    EXPECT_GT(adjoint_error(f, flattened(p), one, flattened(bug)), kBroken) << c.name;
  }
}

TEST(Adjoint, gpt_from_the_logits_to_every_parameter) {
  const Tokens tokens = tiny_tokens();
  const Tensor<double> dy = val(5, {2, 4, kVocabulary});
  for (const GptCase& c : kGpts) {
    const GptParameters<double> p = tiny_parameters(c.model);
    const GptOptions options = gpt_options(c.settings);
    const auto f = [&](const DualTensors& in) {
      return gpt(tokens, gpt_parameters(in, kLayers), options);
    };
    const GptParameters<double> d = gpt_backward(dy, tokens, p, options);
    EXPECT_LE(adjoint_error(f, flattened(p), dy, flattened(d)), kProved) << c.name;
  }
}

}  // namespace
}  // namespace prenorm::reference
