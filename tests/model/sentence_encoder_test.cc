#include "prenorm/model/sentence_encoder.h"

#include <gtest/gtest.h>

#include <array>

#include "prenorm/base/error.h"

namespace prenorm {
namespace {

TEST(SentenceEncoder, pooling_takes_the_mean_the_first_or_the_largest) {
  const std::array<float, 6> hidden{1.0f, -4.0f, 2.0f, -2.0f, 6.0f, -3.0f};
  const ConstMatrix x(hidden.data(), {3, 2});
  std::array<float, 2> out{};
  pool_tokens(Pooling::kMean, x, out);
  EXPECT_EQ(out, (std::array{3.0f, -3.0f}));
  pool_tokens(Pooling::kCls, x, out);
  EXPECT_EQ(out, (std::array{1.0f, -4.0f}));
  pool_tokens(Pooling::kMax, x, out);
  EXPECT_EQ(out, (std::array{6.0f, -2.0f}));
}

TEST(SentenceEncoder, a_vector_is_normalised_to_length_one_and_zero_stays_zero) {
  std::array<float, 2> x{3.0f, -4.0f}, zero{};
  normalize_vector(x);
  EXPECT_EQ(x, (std::array{0.6f, -0.8f}));
  normalize_vector(zero);
  EXPECT_EQ(zero, (std::array{0.0f, 0.0f}));
}

TEST(SentenceEncoder, a_folder_that_is_none_is_refused) {
  EXPECT_THROW(SentenceEncoder("/nowhere/at/all"), IoError);
}

}  // namespace
}  // namespace prenorm
