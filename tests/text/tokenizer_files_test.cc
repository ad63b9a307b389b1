#include "prenorm/text/tokenizer_files.h"

#include "prenorm/text/byte_tokenizer.h"
#include "tests/text/tokenizer_folder.h"

namespace prenorm {
namespace {

using TokenizerFiles = TokenizerFolder;

TEST_F(TokenizerFiles, its_file_spells_bytes_as_gpt2_does) {
  ByteTokenizer().save(path_);
  const Json json = parse_json(read_file(path_ / "tokenizer.json"), "x");
  const Json& vocab = json["model"]["vocab"];
  EXPECT_EQ(vocab.size(), 256u);
  EXPECT_EQ(vocab["\xC4\xA0"], 32);
  EXPECT_EQ(vocab["\xC4\x8A"], 10);
  EXPECT_EQ(vocab["\xC5\x83"], 173);
  EXPECT_EQ(vocab["!"], 33);
  EXPECT_EQ(vocab["\xC3\xBF"], 255);
}

}  // namespace
}  // namespace prenorm
