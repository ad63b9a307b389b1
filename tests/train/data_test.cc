#include "prenorm/train/data.h"

#include <gtest/gtest.h>

#include <vector>

namespace prenorm {
namespace {

TEST(Data, the_fingerprint_tells_tokens_and_their_split_apart) {
  const std::vector<TokenId> tokens{5, 6, 7, 8}, swapped{5, 7, 6, 8};
  const auto of = [](const std::vector<TokenId>& all, std::size_t train) {
    const std::span<const TokenId> span = all;
    return fingerprint({span.first(train), span.subspan(train)});
  };
  EXPECT_EQ(of(tokens, 3), of(std::vector<TokenId>(tokens), 3));
  EXPECT_NE(of(tokens, 3), of(swapped, 3));
  EXPECT_NE(of(tokens, 3), of(tokens, 2));
  EXPECT_NE(of(tokens, 4), of({5, 6, 7, 8, 0}, 4));
}

}  // namespace
}  // namespace prenorm
