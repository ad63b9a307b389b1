#include "prenorm/text/byte_tokenizer.h"

#include <numeric>

#include "tests/text/tokenizer_folder.h"

namespace prenorm {
namespace {

using ::testing::ThrowsMessage;

using ByteTokenizerTest = TokenizerFolder;

TEST_F(ByteTokenizerTest, ids_are_the_byte_values_and_every_byte_round_trips) {
  std::string all(256, '\0');
  std::iota(all.begin(), all.end(), '\0');
  const ByteTokenizer tokenizer;
  const std::vector<TokenId> ids = tokenizer.encode(all);
  ASSERT_EQ(ids.size(), 256u);
  for (TokenId i = 0; i < 256; ++i) EXPECT_EQ(ids[static_cast<std::size_t>(i)], i);
  EXPECT_EQ(tokenizer.decode(ids), all);
  EXPECT_EQ(tokenizer.decode(TokenId{65}), "A");
  EXPECT_EQ(tokenizer.vocab_size(), 256);
}

TEST_F(ByteTokenizerTest, an_id_outside_the_vocabulary_is_named) {
  EXPECT_THAT([] { ByteTokenizer().decode(TokenId{256}); },
              ThrowsMessage<DataError>("token id: expected 0 to 255, found 256"));
  EXPECT_THROW(ByteTokenizer().decode(TokenId{-1}), DataError);
}

TEST_F(ByteTokenizerTest, loads_back_from_its_folder) {
  ByteTokenizer().save(path_);
  const auto loaded = load_tokenizer(path_);
  EXPECT_EQ(loaded->kind(), "byte");
  EXPECT_FALSE(loaded->needs_utf8());
  EXPECT_EQ(loaded->encode("a\xFF"), (std::vector<TokenId>{97, 255}));
}

}  // namespace
}  // namespace prenorm
