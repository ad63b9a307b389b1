#include "prenorm/base/portable_math.h"

#include <bit>
#include <cmath>
#include <limits>

namespace prenorm {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// log 2 and π/2 in parts: a part of 33 bits times an integer of up to 20 bits is exact.
constexpr double kLn2High = 0x1.62e42ffp-1;
constexpr double kLn2Low = -0x1.718432a1b0e26p-35;
constexpr double kHalfPi1 = 0x1.921fb544p0;
constexpr double kHalfPi2 = 0x1.0b4611a6p-34;
constexpr double kHalfPi3 = 0x1.3198a2e037073p-69;

// The sum of two doubles, unevaluated.
struct Pair {
  double hi;
  double lo;
};

// a + b exactly, for |a| >= |b|.
Pair fast_two_sum(double a, double b) {
  const double sum = a + b;
  return {sum, b - (sum - a)};
}

Pair multiply(Pair a, Pair b) {
  const double product = a.hi * b.hi;
  if (!std::isfinite(product)) return {product, 0.0};
  const double error = std::fma(a.hi, b.hi, -product);
  return fast_two_sum(product, error + (a.hi * b.lo + a.lo * b.hi));
}

// Nearest integer, ties to even, for |x| < 2^51.
double nearest(double x) {
  constexpr double kMagic = 0x1.8p52;
  return (x + kMagic) - kMagic;
}

double power_of_two(int n) {  // -1022 <= n <= 1023
  return std::bit_cast<double>(static_cast<std::uint64_t>(n + 1023) << 52);
}

// sin and cos of r.hi + r.lo in [-π/4, π/4]. Minimax: relative errors 2^-57.9 and 2^-63.9.
double sin_reduced(Pair r) {
  const double z = r.hi * r.hi;
  double s = 0x1.5d8e3511cdc1ap-33;
  s = s * z - 0x1.ae5e5471f5502p-26;
  s = s * z + 0x1.71de355f05599p-19;
  s = s * z - 0x1.a01a019bf222ep-13;
  s = s * z + 0x1.111111110f75dp-7;
  s = s * z - 0x1.5555555555548p-3;
  return r.hi + (s * z * r.hi + r.lo * (1.0 - 0.5 * z));
}
double cos_reduced(Pair r) {
  const double z = r.hi * r.hi;
  double c = -0x1.8fa681e38524p-37;
  c = c * z + 0x1.1ee9dbd0d86a6p-29;
  c = c * z - 0x1.27e4f7f19d4b2p-22;
  c = c * z + 0x1.a01a019c8f3eep-16;
  c = c * z - 0x1.6c16c16c15016p-10;
  c = c * z + 0x1.555555555554bp-5;
  const double half = 0.5 * z;
  const double head = 1.0 - half;
  return head + (((1.0 - head) - half) + (c * z * z - r.hi * r.lo));
}

// cos of r + quarter * π/2.
double cos_of_quarter(Pair r, int quarter) {
  switch (quarter & 3) {
    case 0:
      return cos_reduced(r);
    case 1:
      return -sin_reduced(r);
    case 2:
      return -cos_reduced(r);
    default:
      return sin_reduced(r);
  }
}

// x = quarter * π/2 + the pair, |x| <= 1e5.
Pair reduce_angle(double x, int& quarter) {
  const double n = nearest(x * 0x1.45f306dc9c883p-1);
  quarter = static_cast<int>(n);
  const double a = x - n * kHalfPi1;  // exact
  const double b = n * kHalfPi2;      // exact
  const double sum = a - b;
  const double v = sum - a;
  const double error = (a - (sum - v)) - (b + v);
  return fast_two_sum(sum, error - n * kHalfPi3);
}

// π x = quarter * π/2 + the pair, x >= 0.
Pair reduce_half_turns(double x, int& quarter) {
  const double turn = std::fmod(x, 2.0);
  const double q = nearest(turn * 2.0);
  quarter = static_cast<int>(q);
  const double f = turn - 0.5 * q;  // exact, in [-1/4, 1/4]
  return multiply({f, 0.0}, {0x1.921fb54442d18p1, 0x1.1a62633145c07p-53});
}

}  // namespace

double portable_exp(double x) {
  if (std::isnan(x)) return x;
  if (x > 709.8) return kInfinity;
  if (x < -745.2) return 0.0;
  const double n = nearest(x * 0x1.71547652b82fep0);
  const double high = x - n * kLn2High;  // exact
  const double low = n * kLn2Low;
  const double r = high - low;
  const double tail = (high - r) - low;
  // e^r - 1 - r over r^2. Minimax on [-ln(2)/2, ln(2)/2], relative error of e^r 5.4e-18.
  double p = 0x1.ad1d91e93d541p-26;
  p = p * r + 0x1.289fe09ccfed2p-22;
  p = p * r + 0x1.71df578bb4c5p-19;
  p = p * r + 0x1.a019aaddc2ed3p-16;
  p = p * r + 0x1.a01a011ad3d22p-13;
  p = p * r + 0x1.6c16c17cda299p-10;
  p = p * r + 0x1.1111111128d0dp-7;
  p = p * r + 0x1.55555555531c6p-5;
  p = p * r + 0x1.55555555555p-3;
  p = p * r + 0.5;
  const double y = 1.0 + (r + (p * r * r + (tail + tail * r)));
  // Two factors, so that each is a normal number and a denormal result is rounded once.
  const int exponent = static_cast<int>(n);
  const int half = exponent / 2;
  return y * power_of_two(half) * power_of_two(exponent - half);
}

double portable_log(double x) {
  if (std::isnan(x) || x == kInfinity) return x;
  if (x < 0.0) return kNan;
  if (x == 0.0) return -kInfinity;
  int exponent = 0;
  if (x < 0x1p-1022) {
    x *= 0x1p54;
    exponent = -54;
  }
  // x = 2^exponent m with m in [sqrt(1/2), sqrt(2)).
  constexpr std::uint64_t kSqrtHalf = 0x3fe6a09e667f3bcdu;
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(x);
  const std::int64_t shift = static_cast<std::int64_t>(bits - kSqrtHalf) >> 52;
  exponent += static_cast<int>(shift);
  const double f = std::bit_cast<double>(bits - (static_cast<std::uint64_t>(shift) << 52)) - 1.0;
  // log(1 + f) = log((1 + s) / (1 - s)) = 2 s + s R(s^2), s = f / (2 + f); 2 s = f - s f, and
  // s f = f^2 / 2 - s f^2 / 2. Minimax on |s| <= 0.1717, relative error 1.2e-18.
  const double s = f / (2.0 + f);
  const double z = s * s;
  double r = 0x1.2f103aeb504edp-3;
  r = r * z + 0x1.39a0b4d901fc7p-3;
  r = r * z + 0x1.74664887e89e3p-3;
  r = r * z + 0x1.c71c51dcf77ap-3;
  r = r * z + 0x1.2492494224e8ap-2;
  r = r * z + 0x1.999999997fa39p-2;
  r = r * z + 0x1.5555555555593p-1;
  r = r * z;
  const double half_square = 0.5 * f * f;
  const double k = exponent;
  const double small = s * (half_square + r) + k * kLn2Low;
  return k * kLn2High - ((half_square - small) - f);
}

double portable_log1p(double x) {
  const double u = 1.0 + x;
  if (u == 1.0 || u == kInfinity) return x;
  // log(u) / (u - 1) hardly changes under the rounding of u (Kahan).
  return portable_log(u) * (x / (u - 1.0));
}

double portable_cos(double x) {
  if (!(std::fabs(x) <= 1e5)) return kNan;
  int quarter = 0;
  const Pair r = reduce_angle(x, quarter);
  return cos_of_quarter(r, quarter);
}

double portable_sin(double x) {
  if (!(std::fabs(x) <= 1e5)) return kNan;
  int quarter = 0;
  const Pair r = reduce_angle(x, quarter);
  return cos_of_quarter(r, quarter - 1);
}

double portable_cos_pi(double x) {
  if (!std::isfinite(x)) return kNan;
  int quarter = 0;
  const Pair r = reduce_half_turns(std::fabs(x), quarter);
  return cos_of_quarter(r, quarter) + 0.0;  // no -0
}

double portable_sin_pi(double x) {
  if (!std::isfinite(x)) return kNan;
  int quarter = 0;
  const Pair r = reduce_half_turns(std::fabs(x), quarter);
  return std::copysign(1.0, x) * (cos_of_quarter(r, quarter - 1) + 0.0);
}

double pow_int(double base, std::uint64_t exponent) {
  Pair power{1.0, 0.0};
  Pair square{base, 0.0};
  for (; exponent != 0; exponent >>= 1) {
    if ((exponent & 1) != 0) power = multiply(power, square);
    if (exponent > 1) square = multiply(square, square);
  }
  return power.hi;
}

std::array<double, 2> normal_pair(double u1, double u2) {
  const double radius = std::sqrt(-2.0 * portable_log(1.0 - u1));
  return {radius * portable_cos_pi(2.0 * u2), radius * portable_sin_pi(2.0 * u2)};
}

}  // namespace prenorm
