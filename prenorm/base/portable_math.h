// Elementary functions whose bits are the same on every machine and with every C library: made of
// IEEE + - * /, the square root, fused multiply-add and integer operations alone. Whatever reaches
// weights, logits or samples uses these, never <cmath>'s exp, log, cos or pow.
//
//   const double probability = portable_exp(logit - largest);
#pragma once
#include <array>
#include <cstdint>

namespace prenorm {

// e^x. Error below 1 ulp (denormal results included).
double portable_exp(double x);

// Natural logarithm. Error below 1 ulp. -inf for 0, NaN below.
double portable_log(double x);

// log(1 + x) for x >= 0. Error below 3 ulp.
double portable_log1p(double x);

// Cosine and sine of an angle in radians, |x| <= 1e5 (NaN beyond). Error below 1 ulp, near the
// zeros too.
double portable_cos(double x);
double portable_sin(double x);

// cos(π x) and sin(π x), any finite x. Error below 1 ulp; exact at multiples of 1/2.
double portable_cos_pi(double x);
double portable_sin_pi(double x);

// base^exponent by repeated squaring in pairs of doubles. Error below 1 ulp for exponents up to
// 2^40. pow_int(0, 0) is 1.
double pow_int(double base, std::uint64_t exponent);

// Two independent standard normal numbers from two independent uniform ones in [0, 1)
// (Box, Muller 1958): sqrt(-2 log(1 - u1)) times (cos 2π u2, sin 2π u2).
std::array<double, 2> normal_pair(double u1, double u2);

}  // namespace prenorm
