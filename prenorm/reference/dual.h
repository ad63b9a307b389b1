// Forward-mode dual numbers: a value and its derivative along one direction. Running unchanged code
// on duals whose derivatives are a direction v gives J·v beside the result, exact up to rounding,
// with no step size.
//
//   Dual<double> x(2.0, 1.0);       // x = 2, dx = 1
//   Dual<double> y = x * exp(x);    // y.derivative is (1 + x) eˣ
//
// The functions are found by argument-dependent lookup: generic code says `using std::exp; exp(x)`.
#pragma once
#include <cmath>
#include <concepts>

namespace prenorm::reference {

template <typename S>
struct Dual {
  S value{};
  S derivative{};

  constexpr Dual() = default;
  // A constant: its derivative is zero.
  template <typename A>
  requires std::convertible_to<A, S>
  constexpr Dual(A constant) : value(static_cast<S>(constant)) {}  // NOLINT: implicit on purpose
  constexpr Dual(S value_, S derivative_) : value(value_), derivative(derivative_) {}

  constexpr Dual& operator+=(const Dual& b) { return *this = *this + b; }
  constexpr Dual& operator-=(const Dual& b) { return *this = *this - b; }
  constexpr Dual& operator*=(const Dual& b) { return *this = *this * b; }
  constexpr Dual& operator/=(const Dual& b) { return *this = *this / b; }

  friend constexpr Dual operator+(const Dual& a) { return a; }
  friend constexpr Dual operator-(const Dual& a) { return {-a.value, -a.derivative}; }
  friend constexpr Dual operator+(const Dual& a, const Dual& b) {
    return {a.value + b.value, a.derivative + b.derivative};
  }
  friend constexpr Dual operator-(const Dual& a, const Dual& b) {
    return {a.value - b.value, a.derivative - b.derivative};
  }
  friend constexpr Dual operator*(const Dual& a, const Dual& b) {
    return {a.value * b.value, a.derivative * b.value + a.value * b.derivative};
  }
  friend constexpr Dual operator/(const Dual& a, const Dual& b) {
    const S quotient = a.value / b.value;
    return {quotient, (a.derivative - quotient * b.derivative) / b.value};
  }

  // Order and equality are those of the values: a branch goes the way the plain code goes.
  friend constexpr bool operator==(const Dual& a, const Dual& b) { return a.value == b.value; }
  friend constexpr bool operator!=(const Dual& a, const Dual& b) { return a.value != b.value; }
  friend constexpr bool operator<(const Dual& a, const Dual& b) { return a.value < b.value; }
  friend constexpr bool operator>(const Dual& a, const Dual& b) { return a.value > b.value; }
  friend constexpr bool operator<=(const Dual& a, const Dual& b) { return a.value <= b.value; }
  friend constexpr bool operator>=(const Dual& a, const Dual& b) { return a.value >= b.value; }
};

template <typename S>
Dual<S> sqrt(const Dual<S>& x) {
  using std::sqrt;
  const S root = sqrt(x.value);
  return {root, x.derivative / (S(2) * root)};
}

template <typename S>
Dual<S> exp(const Dual<S>& x) {
  using std::exp;
  const S power = exp(x.value);
  return {power, power * x.derivative};
}

template <typename S>
Dual<S> log(const Dual<S>& x) {
  using std::log;
  return {log(x.value), x.derivative / x.value};
}

template <typename S>
Dual<S> tanh(const Dual<S>& x) {
  using std::tanh;
  const S t = tanh(x.value);
  return {t, (S(1) - t * t) * x.derivative};
}

// d/dx erf x = 2/√π · exp(−x²)
template <typename S>
S erf_slope(const S& x) {
  using std::exp;
  return S(1.12837916709551257389615890312154517L) * exp(-x * x);
}

template <typename S>
Dual<S> erf(const Dual<S>& x) {
  using std::erf;
  return {erf(x.value), erf_slope(x.value) * x.derivative};
}

template <typename S>
Dual<S> erfc(const Dual<S>& x) {
  using std::erfc;
  return {erfc(x.value), -erf_slope(x.value) * x.derivative};
}

}  // namespace prenorm::reference
