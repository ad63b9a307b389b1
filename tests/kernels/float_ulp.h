// Errors of float results in units of the last place, against a long double value.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>

namespace prenorm {

// |y - exact| in ulps of a float of that size; denormals count in multiples of the smallest one.
inline double float_ulps(float y, long double exact) {
  const float rounded = static_cast<float>(exact);
  if (std::isnan(y) || std::isinf(y) || std::isinf(rounded)) return y == rounded ? 0.0 : INFINITY;
  int exponent;
  std::frexp(static_cast<double>(exact), &exponent);
  const long double unit = std::ldexp(1.0L, exponent < -125 ? -149 : exponent - 24);
  return static_cast<double>(std::fabs(static_cast<long double>(y) - exact) / unit);
}

// Calls body(x) for about 2^32 / stride floats of all signs and sizes, without NaN.
template <typename Body>
void each_float(std::uint64_t stride, const Body& body) {
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += stride) {
    const float x = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    if (!std::isnan(x)) body(x);
  }
}

}  // namespace prenorm
