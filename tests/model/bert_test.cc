#include "prenorm/model/bert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "prenorm/base/error.h"
#include "tests/tolerances.h"

namespace prenorm {
namespace {

using testing::HasSubstr;
using Tokens = std::vector<TokenId>;

BertConfig small_config() {
  BertConfig c;
  c.vocab_size = 29;
  c.max_position_embeddings = 90;
  c.hidden_size = 24;
  c.num_hidden_layers = 3;
  c.num_attention_heads = 3;
  c.intermediate_size = 40;
  return c;
}

// Weights of a size that gives attention scores beyond 16, where the kernel goes on in double.
void fill(Bert& model, float scale) {
  std::uint32_t state = 1;
  for (float& x : model.parameters().values()) {
    state = state * 1664525u + 1013904223u;
    x = scale * (static_cast<float>(state >> 8) / 8388608.0f - 1.0f);
  }
}

TokenMatrix matrix(const Tokens& tokens, Index batch) {
  return {tokens.data(), {batch, static_cast<Index>(tokens.size()) / batch}};
}

Tokens some_tokens(Index count, Index first) {
  Tokens tokens;
  for (Index i = 0; i < count; ++i) tokens.push_back(static_cast<TokenId>((first + i * 7) % 29));
  return tokens;
}

std::vector<float> copy(ConstMatrix x, Index row, Index rows) {
  return {x[row].data(), x[row].data() + rows * x.dim(1)};
}

TEST(Bert, a_sequence_has_the_same_bits_alone_and_padded_in_a_batch) {
  for (const float scale : {0.3f, 3.0f}) {
    for (const int threads : {1, 3}) {
      const Runtime run({.threads = threads, .isa = "auto"});
      Bert model(small_config());
      fill(model, scale);
      const std::vector<Index> lengths{5, 70, 1, 64};
      const Index longest = 80;
      Tokens tokens;
      std::vector<unsigned char> padding;
      for (const Index length : lengths) {
        const Tokens own = some_tokens(length, length);
        tokens.insert(tokens.end(), own.begin(), own.end());
        for (Index t = length; t < longest; ++t) tokens.push_back(static_cast<TokenId>(t % 29));
        for (Index t = 0; t < longest; ++t) padding.push_back(t >= length);
      }
      Bert::Workspace work = model.make_workspace(4, longest);
      BertBatch batch{matrix(tokens, 4)};
      batch.padding = {padding.data(), {4, longest}};
      const Matrix hidden = model.forward(run, work, batch);
      const std::vector<float> together = copy(hidden, 0, 4 * longest);
      model.pack(run);  // as the program does; the bits are the same
      for (std::size_t b = 0; b < lengths.size(); ++b) {
        const Tokens own = some_tokens(lengths[b], lengths[b]);
        const Matrix alone = model.forward(run, work, {matrix(own, 1)});
        const auto from = together.begin() + static_cast<Index>(b) * longest * 24;
        EXPECT_TRUE(std::equal(alone.data(), alone.data() + lengths[b] * 24, from))
            << "sequence " << b << ", weights to " << scale;
      }
    }
  }
}

TEST(Bert, every_token_sees_the_later_ones_and_its_segment) {
  const Runtime run({.threads = 1, .isa = "auto"});
  Bert model(small_config());
  fill(model, 0.3f);
  Bert::Workspace work = model.make_workspace(1, 6);
  const Tokens tokens{1, 2, 3, 4, 5, 6}, others{1, 2, 3, 4, 5, 7}, types{0, 0, 0, 0, 0, 1};
  const std::vector<float> first = copy(model.forward(run, work, {matrix(tokens, 1)}), 0, 1);
  EXPECT_NE(copy(model.forward(run, work, {matrix(others, 1)}), 0, 1), first);
  EXPECT_NE(copy(model.forward(run, work, {matrix(tokens, 1), matrix(types, 1)}), 0, 1), first);
  const Tokens zeros(6);
  EXPECT_EQ(copy(model.forward(run, work, {matrix(tokens, 1), matrix(zeros, 1)}), 0, 1), first);
}

// With zero weights in the blocks and γ = 1, each of them normalises the stream again, which is
// normalised already: what comes out is the embedding's norm, written out here in double.
TEST(Bert, the_embedding_is_the_normalised_sum_of_token_position_and_segment) {
  const Runtime run({.threads = 1, .isa = "auto"});
  Bert model(small_config());
  fill(model, 0.3f);
  for (Parameter& p : model.parameters()) {
    if (!p.name.starts_with("embeddings.wt") && !p.name.starts_with("embeddings.wp")) {
      const bool gamma = p.name.ends_with("LayerNorm.weight") || p.name.ends_with("ln_1.weight") ||
                         p.name.ends_with("ln_2.weight");
      std::ranges::fill(p.value, gamma ? 1.0f : 0.0f);
    }
  }
  const Tokens tokens{3, 28, 0}, types{1, 0, 1};
  Bert::Workspace work = model.make_workspace(1, 3);
  const Matrix hidden = model.forward(run, work, {matrix(tokens, 1), matrix(types, 1)});
  const auto table = [&](const char* name) { return model.parameters().find(name)->matrix(); };
  for (Index t = 0; t < 3; ++t) {
    std::vector<double> sum;
    double mean = 0.0, variance = 0.0;
    for (Index i = 0; i < 24; ++i) {
      sum.push_back(double{table("embeddings.wte.weight")[tokens[static_cast<std::size_t>(t)]][i]} +
                    double{table("embeddings.wpe.weight")[t][i]} +
                    double{table("embeddings.wtte.weight")[types[static_cast<std::size_t>(t)]][i]});
      mean += sum.back() / 24.0;
    }
    for (const double x : sum) variance += (x - mean) * (x - mean) / 24.0;
    for (Index i = 0; i < 24; ++i) {
      const double want = (sum[static_cast<std::size_t>(i)] - mean) / std::sqrt(variance + 1e-12);
      EXPECT_NEAR(double{hidden[t][i]}, want,
                  tolerance::kFloatAtol + tolerance::kFloatRtol * std::abs(want));
    }
  }
}

TEST(Bert, the_pooler_is_the_hyperbolic_tangent_of_the_first_tokens) {
  const Runtime run({.threads = 1, .isa = "auto"});
  Bert model(small_config());
  fill(model, 0.0f);
  for (Parameter& p : model.parameters()) {
    if (p.name != "pooler.dense.weight") continue;
    for (Index i = 0; i < 24; ++i) p.value[static_cast<std::size_t>(i * 24 + i)] = 1.0f;
  }
  std::vector<float> hidden(2 * 3 * 24), pooled(2 * 24);
  for (std::size_t i = 0; i < hidden.size(); ++i) hidden[i] = static_cast<float>(i) / 30.0f - 2.0f;
  model.pool(run, ConstMatrix(hidden.data(), {6, 24}), 2, Matrix(pooled.data(), {2, 24}));
  for (std::size_t i = 0; i < 48; ++i) {
    const double x = double{hidden[i / 24 * 72 + i % 24]};
    EXPECT_NEAR(double{pooled[i]}, std::tanh(x), tolerance::kFloatRtol);
  }
}

TEST(Bert, what_the_model_has_not_is_refused_by_name) {
  const Runtime run({.threads = 1, .isa = "auto"});
  Bert model(small_config());
  Bert::Workspace work = model.make_workspace(1, 4);
  const auto message = [&](const Tokens& tokens, const Tokens& types) -> std::string {
    try {
      model.forward(run, work, {matrix(tokens, 1), matrix(types, 1)});
    } catch (const ShapeError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message({1, 2}, {0, 1}), "");
  EXPECT_THAT(message({1, 29}, {0, 1}), HasSubstr("expected token ids in [0, 29), found 29"));
  EXPECT_THAT(message({1, 2}, {0, 2}), HasSubstr("token_types: expected [0, 2), found 2"));
  EXPECT_THAT(message({1, 2}, {0}), HasSubstr("token_types: expected [1, 2], found [1, 1]"));
  EXPECT_THAT(message({1, 2, 3, 4, 5}, {0, 0, 0, 0, 0}), HasSubstr("at most [1, 4]"));
  EXPECT_THROW(model.make_workspace(1, 91), ShapeError);
  BertConfig without = small_config();
  without.add_pooling_layer = false;
  std::vector<float> x(24);
  EXPECT_THROW(
      Bert(without).pool(run, ConstMatrix(x.data(), {1, 24}), 1, Matrix(x.data(), {1, 24})),
      ConfigError);
}

}  // namespace
}  // namespace prenorm
