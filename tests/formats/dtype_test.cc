#include "prenorm/formats/dtype.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

namespace prenorm {
namespace {

template <typename T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

// The nearest value among all 2^16 of a type, ties to the even bit pattern: the definition of
// rounding, by search. Values beyond the largest count as if the next one up were infinity.
std::uint16_t nearest(double x, float (*widen)(std::uint16_t), std::uint16_t infinity,
                      double overflow) {
  if (std::abs(x) >= overflow) return infinity;
  std::uint16_t low = 0, high = infinity - 1;  // magnitudes ascend with their bits
  while (high - low > 1) {
    const auto middle = static_cast<std::uint16_t>((low + high) / 2);
    (widen(middle) <= std::abs(x) ? low : high) = middle;
  }
  const double below = std::abs(x) - widen(low), above = widen(high) - std::abs(x);
  if (below != above) return below < above ? low : high;
  return low % 2 == 0 ? low : high;
}

TEST(Dtype, names_go_there_and_back) {
  int known = 0;
  for (const char* name : {"BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "I16", "U16", "F16", "BF16",
                           "I32", "U32", "F32", "C64", "F64", "I64", "U64"}) {
    const auto dtype = dtype_from_name(name);
    ASSERT_TRUE(dtype.has_value()) << name;
    EXPECT_EQ(dtype_name(*dtype), name);
    ++known;
  }
  EXPECT_EQ(known, 16);
  EXPECT_EQ(dtype_from_name("f32"), std::nullopt);
  EXPECT_EQ(dtype_from_name("F33"), std::nullopt);
  EXPECT_EQ(dtype_size(Dtype::kBF16), 2u);
  EXPECT_EQ(dtype_size(Dtype::kU64), 8u);
}

TEST(Dtype, every_half_widens_to_its_value_and_narrows_back) {
  for (unsigned n = 0; n < 0x10000; ++n) {
    const auto bits = static_cast<std::uint16_t>(n);
    const unsigned exponent = n >> 10 & 31, fraction = n & 0x3FF;
    const float value = float_from_f16(bits);
    if (exponent == 31 && fraction != 0) {
      EXPECT_TRUE(std::isnan(value));
      EXPECT_TRUE(std::isnan(float_from_f16(f16_from_float(value))));
      continue;
    }
    const double magnitude = exponent == 31  ? std::numeric_limits<double>::infinity()
                             : exponent == 0 ? std::ldexp(fraction, -24)
                                             : std::ldexp(1024 + fraction, int(exponent) - 25);
    EXPECT_EQ(value, n & 0x8000 ? -magnitude : magnitude) << n;
    EXPECT_EQ(std::signbit(value), (n & 0x8000) != 0);
    EXPECT_EQ(f16_from_float(value), bits);
  }
}

TEST(Dtype, every_bfloat16_widens_and_narrows_back) {
  for (unsigned n = 0; n < 0x10000; ++n) {
    const auto bits = static_cast<std::uint16_t>(n);
    const float value = float_from_bf16(bits);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(value), n << 16);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(float_from_bf16(bf16_from_float(value))));
    } else {
      EXPECT_EQ(bf16_from_float(value), bits);
    }
  }
}

TEST(Dtype, narrowing_rounds_to_the_nearest_and_ties_to_even) {
  const double f16_overflow = 65520.0, bf16_overflow = 0x1.FFp127;
  int checked = 0;
  // Bit patterns spread over all exponents, and at and beside the ties of both types.
  for (std::uint32_t high = 0; high < 0x7F80; ++high) {
    for (const std::uint32_t low : {0x0000u, 0x0FFFu, 0x1000u, 0x1001u, 0x3000u, 0x7FFFu, 0x8000u,
                                    0x8001u, 0xD000u, 0xFFFFu}) {
      const float x = std::bit_cast<float>(high << 16 | low);
      ASSERT_EQ(f16_from_float(x), nearest(x, float_from_f16, 0x7C00, f16_overflow)) << x;
      ASSERT_EQ(f16_from_float(-x), 0x8000 | f16_from_float(x));
      ASSERT_EQ(bf16_from_float(x), nearest(x, float_from_bf16, 0x7F80, bf16_overflow)) << x;
      ++checked;
    }
  }
  EXPECT_EQ(checked, 0x7F80 * 10);
}

TEST(Dtype, a_nan_whose_payload_is_in_the_lost_bits_stays_a_nan) {
  const float nan = std::bit_cast<float>(0x7F800001u), negative = std::bit_cast<float>(0xFFFFFFFFu);
  EXPECT_TRUE(std::isnan(float_from_bf16(bf16_from_float(nan))));
  EXPECT_TRUE(std::isnan(float_from_f16(f16_from_float(nan))));
  EXPECT_TRUE(std::isnan(float_from_bf16(bf16_from_float(negative))));
  EXPECT_TRUE(std::isnan(float_from_f16(f16_from_float(negative))));
}

TEST(Dtype, doubles_round_once_to_float) {
  // Just above the middle of two floats: rounding first to a shorter double would lose it.
  const std::vector<double> from = {1.0 + 0x1p-24, 1.0 + 0x1p-24 + 0x1p-52, 1e300, -0.0, 0x1p-149};
  std::vector<float> to(from.size());
  floats_from(Dtype::kF64, bytes_of(from), to);
  EXPECT_EQ(to[0], 1.0f);
  EXPECT_EQ(to[1], 1.0f + 0x1p-23f);
  EXPECT_EQ(to[2], std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::signbit(to[3]));
  EXPECT_EQ(to[4], std::numeric_limits<float>::denorm_min());
  std::vector<double> same(from.size());
  doubles_from(Dtype::kF64, bytes_of(from), same);
  EXPECT_EQ(same, from);
}

TEST(Dtype, bytes_need_no_alignment) {
  const std::vector<float> values = {1.5f, -2.0f};
  std::vector<std::byte> shifted(1 + sizeof(float) * values.size());
  std::memcpy(shifted.data() + 1, values.data(), sizeof(float) * values.size());
  std::vector<float> floats(2);
  std::vector<double> doubles(2);
  floats_from(Dtype::kF32, std::span(shifted).subspan(1), floats);
  doubles_from(Dtype::kF32, std::span(shifted).subspan(1), doubles);
  EXPECT_EQ(floats, values);
  EXPECT_EQ(doubles, (std::vector<double>{1.5, -2.0}));
}

TEST(Dtype, integers_keep_their_sign_and_refuse_what_does_not_fit) {
  const auto read = [](Dtype dtype, std::vector<unsigned char> bytes) -> std::optional<Index> {
    Index out = 0;
    if (!integers_from(dtype, std::as_bytes(std::span(bytes)), std::span(&out, 1))) return {};
    return out;
  };
  EXPECT_EQ(read(Dtype::kI8, {0xFE}), -2);
  EXPECT_EQ(read(Dtype::kU8, {0xFE}), 254);
  EXPECT_EQ(read(Dtype::kI16, {0xFE, 0xFF}), -2);
  EXPECT_EQ(read(Dtype::kU16, {0xFE, 0xFF}), 65534);
  EXPECT_EQ(read(Dtype::kI32, {0xFE, 0xFF, 0xFF, 0xFF}), -2);
  EXPECT_EQ(read(Dtype::kU32, {0xFE, 0xFF, 0xFF, 0xFF}), 4294967294);
  EXPECT_EQ(read(Dtype::kI64, std::vector<unsigned char>(8, 0xFF)), -1);
  EXPECT_EQ(read(Dtype::kU64, std::vector<unsigned char>(8, 0xFF)), std::nullopt);
  EXPECT_EQ(read(Dtype::kU64, {1, 0, 0, 0, 0, 0, 0, 0}), 1);
  EXPECT_FALSE(dtype_is_integer(Dtype::kBool));
  EXPECT_FALSE(dtype_is_integer(Dtype::kF32));
}

}  // namespace
}  // namespace prenorm
