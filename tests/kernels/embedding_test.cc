#include "prenorm/kernels/embedding.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/kernels/kernel_test_util.h"
#include "tests/kernels/rows_testing.h"
#include "tests/tolerances.h"

namespace prenorm::kernels {
namespace {

using namespace rows_testing;  // NOLINT

constexpr Index kVocabulary = 11, kPositions = 40;

std::vector<TokenId> random_tokens(Index count, std::uint32_t seed) {
  std::vector<TokenId> tokens(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<TokenId>(random_word({seed, 0}, i) % kVocabulary);
  }
  return tokens;
}

TEST(Embedding, adds_the_token_row_and_the_position_row) {
  const Runtime run;
  for (const Index width : {1, 2, 3, 15, 16, 17, 100, 768}) {
    PaddedMatrix token(kVocabulary, width), position(kPositions, width), y(3 * 20, width);
    fill_normal(token, 1);
    fill_normal(position, 2);
    const auto ids = random_tokens(60, 3);
    embedding_forward(run, {ids.data(), {3, 20}}, token.cview(), position.cview(), 5, y.view());
    for (Index b = 0; b < 3; ++b) {
      for (Index t = 0; t < 20; ++t) {
        for (Index c = 0; c < width; ++c) {
          const Index id = ids[static_cast<std::size_t>(b * 20 + t)];
          ASSERT_EQ(y(b * 20 + t, c), token(id, c) + position(5 + t, c));
        }
      }
    }
    EXPECT_TRUE(y.guards_intact());
  }
}

TEST(Embedding, backward_adds_rows_in_ascending_order_to_what_the_gradients_hold) {
  const Runtime run;
  const Index width = 19;
  PaddedMatrix dy(60, width), dtoken(kVocabulary, width), dposition(kPositions, width);
  fill_normal(dy, 4);
  fill_normal(dtoken, 5);
  fill_normal(dposition, 6);
  PaddedMatrix expected_token = dtoken, expected_position = dposition;
  const auto ids = random_tokens(60, 7);
  for (Index n = 0; n < 60; ++n) {
    for (Index c = 0; c < width; ++c) {
      expected_token(ids[static_cast<std::size_t>(n)], c) += dy(n, c);
      expected_position(n % 20, c) += dy(n, c);
    }
  }
  embedding_backward(run, {ids.data(), {3, 20}}, dy.cview(), dtoken.view(), dposition.view());
  EXPECT_TRUE(dtoken.same_bits(expected_token));
  EXPECT_TRUE(dposition.same_bits(expected_position));
}

TEST(Embedding, backward_is_the_adjoint_of_forward) {
  const Runtime run;
  const Index width = 33, rows = 60;
  PaddedMatrix token(kVocabulary, width), position(kPositions, width), y(rows, width);
  PaddedMatrix dy(rows, width), dtoken(kVocabulary, width), dposition(kPositions, width);
  fill_normal(token, 8);
  fill_normal(position, 9);
  fill_normal(dy, 10);
  for (PaddedMatrix* m : {&dtoken, &dposition}) {
    for (Index n = 0; n < m->rows(); ++n) {
      for (Index c = 0; c < width; ++c) (*m)(n, c) = 0.0f;
    }
  }
  const auto ids = random_tokens(rows, 11);
  const TokenMatrix tokens(ids.data(), {3, 20});
  embedding_forward(run, tokens, token.cview(), position.cview(), 0, y.view());
  embedding_backward(run, tokens, dy.cview(), dtoken.view(), dposition.view());
  const auto dot = [](const PaddedMatrix& a, const PaddedMatrix& b) {
    double sum = 0;
    for (Index n = 0; n < a.rows(); ++n) {
      for (Index c = 0; c < a.width(); ++c) sum += static_cast<double>(a(n, c)) * b(n, c);
    }
    return sum;
  };
  // The map is linear, so the parameters themselves are the direction.
  const double forward = dot(dy, y), backward = dot(dtoken, token) + dot(dposition, position);
  EXPECT_NEAR(forward, backward, tolerance::kAdjointFloat * std::sqrt(dot(dy, dy) * dot(y, y)));
}

TEST(Embedding, gives_the_same_bits_on_every_isa_and_thread_count) {
  for (const Index width : {1, 17, 100, 768}) {
    const auto ids = random_tokens(600, 12);
    const TokenMatrix tokens(ids.data(), {15, 40});
    PaddedMatrix token(kVocabulary, width), position(kPositions, width), dy(600, width);
    fill_normal(token, 13);
    fill_normal(position, 14);
    fill_normal(dy, 15);
    const Runtime first({.threads = 1, .isa = "auto"});
    PaddedMatrix y(600, width), dtoken = token, dposition = position;
    embedding_forward(first, tokens, token.cview(), position.cview(), 0, y.view());
    embedding_backward(first, tokens, dy.cview(), dtoken.view(), dposition.view());
    on_every_runtime([&](const Runtime& run) {
      PaddedMatrix y2(600, width), dtoken2 = token, dposition2 = position;
      embedding_forward(run, tokens, token.cview(), position.cview(), 0, y2.view());
      embedding_backward(run, tokens, dy.cview(), dtoken2.view(), dposition2.view());
      EXPECT_TRUE(y2.same_bits(y));
      EXPECT_TRUE(dtoken2.same_bits(dtoken));
      EXPECT_TRUE(dposition2.same_bits(dposition));
    });
  }
}

TEST(Embedding, accumulates_micro_batches_to_the_bits_of_one_batch) {
  const Runtime run({.threads = 2, .isa = "auto"});
  const auto ids = random_tokens(600, 16);
  PaddedMatrix dy(600, 21), dtoken(kVocabulary, 21), dposition(kPositions, 21);
  fill_normal(dy, 17);
  fill_normal(dtoken, 18);
  fill_normal(dposition, 19);
  PaddedMatrix dtoken2 = dtoken, dposition2 = dposition;
  embedding_backward(run, {ids.data(), {15, 40}}, dy.cview(), dtoken.view(), dposition.view());
  for (Index b = 0; b < 15; b += 5) {
    embedding_backward(run, {ids.data() + b * 40, {5, 40}}, dy.cview().rows(b * 40, 200),
                       dtoken2.view(), dposition2.view());
  }
  EXPECT_TRUE(dtoken2.same_bits(dtoken));
  EXPECT_TRUE(dposition2.same_bits(dposition));
}

}  // namespace
}  // namespace prenorm::kernels
