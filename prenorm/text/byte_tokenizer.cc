#include "prenorm/text/byte_tokenizer.h"

#include "prenorm/text/byte_level.h"
#include "prenorm/text/tokenizer_files.h"

namespace prenorm {

std::vector<TokenId> ByteTokenizer::encode(std::string_view text) const {
  std::vector<TokenId> ids(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) ids[i] = static_cast<unsigned char>(text[i]);
  return ids;
}

std::string ByteTokenizer::decode(std::span<const TokenId> ids) const {
  std::string text;
  text.reserve(ids.size());
  for (const TokenId id : ids) {
    if (id < 0 || id > 255) {
      throw DataError("token id: expected 0 to 255, found " + std::to_string(id));
    }
    text += static_cast<char>(static_cast<unsigned char>(id));
  }
  return text;
}

void ByteTokenizer::save(const std::filesystem::path& folder) const {
  save_symbol_tokenizer(folder, kind(), kByteLevelAlphabet);
}

}  // namespace prenorm
