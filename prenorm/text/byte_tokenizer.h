// One token a byte: ids are the byte values, any bytes can be encoded.
#pragma once
#include "prenorm/text/tokenizer.h"

namespace prenorm {

class ByteTokenizer : public Tokenizer {
 public:
  using Tokenizer::decode;
  std::vector<TokenId> encode(std::string_view text) const override;
  std::string decode(std::span<const TokenId> ids) const override;
  Index vocab_size() const override { return 256; }
  std::string_view kind() const override { return "byte"; }
  bool needs_utf8() const override { return false; }
  void save(const std::filesystem::path& folder) const override;
};

}  // namespace prenorm
