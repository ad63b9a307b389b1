// Rounding to the small floating-point types, so that the textbook can replay a run in them: an
// operation is computed in its scalar type and its result rounded, as hardware and PyTorch do.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "prenorm/reference/dual.h"
#include "prenorm/reference/tensor.h"

namespace prenorm::reference {

enum class Numbers { kExact, kFloat32, kBfloat16, kFloat16 };

struct NumberFormat {
  int precision;     // bits of the significand, the leading one included
  int min_exponent;  // of the smallest normal number, 2^min_exponent
  double largest;
};

constexpr NumberFormat number_format(Numbers numbers) {
  if (numbers == Numbers::kFloat16) return {11, -14, 65504.0};
  if (numbers == Numbers::kBfloat16) return {8, -126, 0x1.FEp127};
  return {24, -126, 0x1.FFFFFEp127};
}

// x to the nearest number of the format, ties to even; beyond the largest to infinity.
inline double round_to(double x, Numbers numbers) {
  if (numbers == Numbers::kExact || x == 0.0 || !std::isfinite(x)) return x;
  if (numbers == Numbers::kFloat32 && std::abs(x) <= number_format(numbers).largest) {
    return static_cast<double>(static_cast<float>(x));
  }
  const NumberFormat format = number_format(numbers);
  // Dropped bits: of a normal number all beyond the precision, below it those beyond a fixed unit.
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const int exponent = static_cast<int>(bits >> 52 & 0x7ff) - 1023;
  double rounded;
  if (exponent >= format.min_exponent) {
    const int dropped = 53 - format.precision;
    const std::uint64_t half = (std::uint64_t{1} << (dropped - 1)) - 1 + (bits >> dropped & 1);
    rounded = std::bit_cast<double>((bits + half) >> dropped << dropped);
  } else {
    const double unit = std::ldexp(1.0, format.min_exponent - format.precision + 1);
    rounded = std::nearbyint(x / unit) * unit;
  }
  if (std::abs(rounded) <= format.largest) return rounded;
  return std::copysign(std::numeric_limits<double>::infinity(), x);
}

template <typename S>
S rounded(const S& x, Numbers numbers) {
  return numbers == Numbers::kExact ? x : S(round_to(static_cast<double>(x), numbers));
}
// Rounding moves the value; the derivative is that of the unrounded operation.
template <typename S>
Dual<S> rounded(const Dual<S>& x, Numbers numbers) {
  return {rounded(x.value, numbers), x.derivative};
}

template <typename S>
Tensor<S> rounded(Tensor<S> x, Numbers numbers) {
  if (numbers == Numbers::kExact) return x;
  for (S& element : x) element = rounded(element, numbers);
  return x;
}

}  // namespace prenorm::reference
