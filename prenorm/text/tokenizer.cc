#include "prenorm/text/tokenizer.h"

#include <utility>

namespace prenorm {

EncodeError::EncodeError(std::string_view source, std::size_t byte_offset,
                         std::string what_expected, std::string what_found)
    : DataError(std::string(source) + ": expected " + what_expected + ", found " + what_found +
                " at byte " + std::to_string(byte_offset)),
      offset(byte_offset),
      expected(std::move(what_expected)),
      found(std::move(what_found)) {}

std::string Tokenizer::decode(TokenId id) const { return decode(std::span(&id, 1)); }

}  // namespace prenorm
