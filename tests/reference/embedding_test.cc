#include "prenorm/reference/embedding.h"

#include <gtest/gtest.h>

namespace prenorm::reference {
namespace {

TEST(Embedding, a_row_for_the_token_plus_a_row_for_the_place) {
  const EmbeddingParameters<double> p{Tensor<double>({2, 2}, {1, 2, 3, 4}),
                                      Tensor<double>({3, 2}, {10, 20, 30, 40, 50, 60})};
  const Tokens tokens({1, 2}, {1, 0});
  EXPECT_EQ(embedding(tokens, p), Tensor<double>({1, 2, 2}, {13, 24, 31, 42}));
  EXPECT_EQ(embedding(tokens, p, 1), Tensor<double>({1, 2, 2}, {33, 44, 51, 62}));
}

TEST(Embedding, gradients_of_repeated_tokens_and_places_add_up) {
  const EmbeddingParameters<double> p{Tensor<double>({3, 1}), Tensor<double>({4, 1})};
  const auto d =
      embedding_backward(Tensor<double>({2, 2, 1}, {1, 2, 4, 8}), Tokens({2, 2}, {1, 1, 0, 1}), p);
  EXPECT_EQ(d.wte.values(), (std::vector<double>{4, 11, 0}));
  EXPECT_EQ(d.wpe.values(), (std::vector<double>{5, 10, 0, 0}));
}

TEST(Embedding, tokens_and_lengths_out_of_range_are_named) {
  const EmbeddingParameters<double> p{Tensor<double>({17, 1}), Tensor<double>({8, 1})};
  try {
    embedding(Tokens({1, 2}, {3, 17}), p);
    FAIL() << "no error";
  } catch (const DataError& error) {
    EXPECT_STREQ(error.what(), "embedding: token: expected 0 to 16, found 17");
  }
  try {
    embedding(Tokens({1, 9}), p);
    FAIL() << "no error";
  } catch (const ShapeError& error) {
    EXPECT_STREQ(error.what(), "embedding: expected at most 8 positions, found 9");
  }
}

}  // namespace
}  // namespace prenorm::reference
