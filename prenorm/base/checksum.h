// CRC-32 (zlib's, as in gzip and zip): finds damage, not forgery.
//
//   std::uint32_t sum = crc32(header);
//   sum = crc32(data, sum);           // of both, one after the other
//   checksum_text(sum);               // "cbf43926"
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace prenorm {

// Of the bytes behind those whose checksum is `before`.
std::uint32_t crc32(std::span<const std::byte> bytes, std::uint32_t before = 0);
std::uint32_t crc32(std::string_view bytes, std::uint32_t before = 0);

// Eight hexadecimal digits.
std::string checksum_text(std::uint32_t checksum);

}  // namespace prenorm
