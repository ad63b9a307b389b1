// bfloat16: the upper half of a float. Inline, because kernels convert whole matrices.
#pragma once
#include <bit>
#include <cstdint>

namespace prenorm {

inline float float_from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

// To nearest, ties to even. A NaN stays one, where rounding could carry it to infinity.
inline std::uint16_t bf16_from_float(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const bool nan = (bits & 0x7FFFFFFFu) > 0x7F800000u;
  const std::uint32_t rounded = (bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16;
  return static_cast<std::uint16_t>(nan ? bits >> 16 | 0x40u : rounded);
}

}  // namespace prenorm
