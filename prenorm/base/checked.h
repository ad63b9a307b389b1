// Size arithmetic that cannot wrap: sums and products of sizes that come from a file or a user.
#pragma once
#include <concepts>
#include <limits>
#include <optional>
#include <utility>

namespace prenorm {

template <std::integral T>
constexpr std::optional<T> checked_add(T a, T b) {
  T out;
  if (__builtin_add_overflow(a, b, &out)) return std::nullopt;
  return out;
}

template <std::integral T>
constexpr std::optional<T> checked_mul(T a, T b) {
  T out;
  if (__builtin_mul_overflow(a, b, &out)) return std::nullopt;
  return out;
}

// The value in the narrower type, or nothing where it does not fit.
template <std::integral To, std::integral From>
constexpr std::optional<To> checked_cast(From value) {
  if (!std::in_range<To>(value)) return std::nullopt;
  return static_cast<To>(value);
}

}  // namespace prenorm
