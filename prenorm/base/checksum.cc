#include "prenorm/base/checksum.h"

#include <zlib.h>

#include <algorithm>
#include <cstdio>

namespace prenorm {

std::uint32_t crc32(std::span<const std::byte> bytes, std::uint32_t before) {
  constexpr std::size_t kMost = 1u << 30;  // zlib counts in unsigned int
  uLong sum = before;
  while (!bytes.empty()) {
    const std::size_t n = std::min(bytes.size(), kMost);
    sum = ::crc32(sum, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(n));
    bytes = bytes.subspan(n);
  }
  return static_cast<std::uint32_t>(sum);
}

std::uint32_t crc32(std::string_view bytes, std::uint32_t before) {
  return crc32(std::as_bytes(std::span(bytes.data(), bytes.size())), before);
}

std::string checksum_text(std::uint32_t checksum) {
  char text[9];
  std::snprintf(text, sizeof text, "%08x", static_cast<unsigned>(checksum));
  return text;
}

}  // namespace prenorm
