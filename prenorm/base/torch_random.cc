#include "prenorm/base/torch_random.h"

#include <array>
#include <bit>
#include <cmath>

#include "prenorm/base/portable_math.h"

namespace prenorm {
namespace {

// A tensor of this many elements or more is filled in blocks, a smaller one number by number.
constexpr std::size_t kBlock = 16;

// log, sin and cos of Moshier's Cephes library in single precision, with the fused multiply-adds
// that PyTorch's vector code has: an ulp or two off, and that is what must be kept.

float polynomial(float x, std::span<const float> coefficients) {
  float sum = coefficients[0];
  for (const float c : coefficients.subspan(1)) sum = std::fma(sum, x, c);
  return sum;
}

// Natural logarithm of a normal number.
float cephes_log(float x) {
  static constexpr std::array kCoefficients = {
      7.0376836292e-2f,  -1.1514610310e-1f, 1.1676998740e-1f,  -1.2420140846e-1f, 1.4249322787e-1f,
      -1.6668057665e-1f, 2.0000714765e-1f,  -2.4999993993e-1f, 3.3333331174e-1f};
  const auto bits = std::bit_cast<std::uint32_t>(x);
  // x = 2^exponent (1 + f), with 1 + f in [sqrt(1/2), sqrt(2)).
  const auto mantissa = std::bit_cast<float>((bits & 0x007fffffu) | 0x3f000000u);
  const bool doubled = mantissa < 0.707106781186547524f;
  const int exponent = static_cast<int>(bits >> 23) - 126 - (doubled ? 1 : 0);
  const float f = doubled ? (mantissa - 1.0f) + mantissa : mantissa - 1.0f;
  const float e = static_cast<float>(exponent);
  const float square = f * f;
  float y = polynomial(f, kCoefficients) * f;
  y = std::fma(y, square, e * -2.12194440e-4f);
  y = std::fma(-0.5f, square, y);
  return std::fma(e, 0.693359375f, f + y);  // log 2 in two parts
}

struct SinCos {
  float sin, cos;
};

// Of an angle of 0 to 2π.
SinCos cephes_sincos(float angle) {
  static constexpr std::array kSin = {-1.9515295891e-4f, 8.3321608736e-3f, -1.6666654611e-1f};
  static constexpr std::array kCos = {2.443315711809948e-5f, -1.388731625493765e-3f,
                                      4.166664568298827e-2f};
  const int octant = (static_cast<int>(angle * 1.27323954473516f) + 1) & ~1;
  const float n = static_cast<float>(octant);
  float r = std::fma(n, -0.78515625f, angle);  // π/4 in three parts
  r = std::fma(n, -2.4187564849853515625e-4f, r);
  r = std::fma(n, -3.77489497744594108e-8f, r);
  const float z = r * r;
  const float c = std::fma(polynomial(z, kCos) * z, z, -(z * 0.5f)) + 1.0f;
  const float s = std::fma(polynomial(z, kSin) * z, r, r);
  const bool swap = (octant & 2) != 0;
  const float sine = swap ? c : s, cosine = swap ? s : c;
  return {(octant & 4) != 0 ? -sine : sine, ((octant + 2) & 4) != 0 ? -cosine : cosine};
}

// 16 uniform numbers to 16 normal ones: number i and number i + 8 make a pair (Box, Muller 1958).
void to_normal(std::span<float> block, float deviation) {
  constexpr float kTwoPi = 6.283185307179586f;
  for (std::size_t i = 0; i < kBlock / 2; ++i) {
    const float radius = std::sqrt(-2.0f * cephes_log(1.0f - block[i]));
    const SinCos angle = cephes_sincos(kTwoPi * block[i + 8]);
    block[i] = radius * angle.cos * deviation;
    block[i + 8] = radius * angle.sin * deviation;
  }
}

}  // namespace

float TorchGenerator::uniform_float() {
  return static_cast<float>(engine_() & 0xffffffu) * 0x1p-24f;
}

double TorchGenerator::uniform_double() {
  const std::uint64_t high = engine_(), low = engine_();
  return static_cast<double>((high << 32 | low) & ((std::uint64_t{1} << 53) - 1)) * 0x1p-53;
}

double TorchGenerator::one_normal() {
  if (next_normal_) {
    const double kept = *next_normal_;
    next_normal_.reset();
    return kept;
  }
  constexpr double kTwoPi = 6.283185307179586;
  const double angle = kTwoPi * uniform_double();
  const double radius = std::sqrt(-2.0 * portable_log(1.0 - uniform_double()));
  next_normal_ = radius * portable_sin(angle);
  return radius * portable_cos(angle);
}

void TorchGenerator::fill_uniform(std::span<float> out) {
  for (float& x : out) x = uniform_float();
}

void TorchGenerator::normal(double deviation, std::span<float> out) {
  if (out.size() < kBlock) {
    for (float& x : out) x = static_cast<float>(one_normal() * deviation);
    return;
  }
  const float scale = static_cast<float>(deviation);
  fill_uniform(out);
  for (std::size_t i = 0; i + kBlock <= out.size(); i += kBlock) {
    to_normal(out.subspan(i, kBlock), scale);
  }
  if (out.size() % kBlock == 0) return;
  // The last 16 are drawn anew, over numbers that were finished already.
  const std::span<float> last = out.last(kBlock);
  fill_uniform(last);
  to_normal(last, scale);
}

void TorchGenerator::skip_normal(std::uint64_t count) {
  if (count >= kBlock) {
    engine_.discard(count + (count % kBlock == 0 ? 0 : kBlock));
  } else {
    for (std::uint64_t i = 0; i < count; ++i) one_normal();
  }
}

}  // namespace prenorm
