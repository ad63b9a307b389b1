#include "prenorm/text/byte_level.h"

#include "prenorm/base/utf8.h"

namespace prenorm {

bool append_byte_level_bytes(std::string& out, std::string_view spelling) {
  // The symbols are below U+0144, as each of the alphabet's 256 is.
  static constexpr auto kBytes = [] {
    std::array<short, 0x144> bytes{};
    for (short& byte : bytes) byte = -1;
    for (std::size_t byte = 0; byte < 256; ++byte) {
      bytes[kByteLevelAlphabet[byte]] = static_cast<short>(byte);
    }
    return bytes;
  }();
  const std::size_t before = out.size();
  while (!spelling.empty()) {
    const Utf8Step step = utf8_step(spelling);
    const short byte =
        step.valid && step.code_point < kBytes.size() ? kBytes[step.code_point] : short{-1};
    if (byte < 0) {
      out.resize(before);
      return false;
    }
    out += static_cast<char>(static_cast<unsigned char>(byte));
    spelling.remove_prefix(step.length);
  }
  return true;
}

std::string byte_level_spelling(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  for (const char c : bytes) append_utf8(out, kByteLevelAlphabet[static_cast<unsigned char>(c)]);
  return out;
}

}  // namespace prenorm
