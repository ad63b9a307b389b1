#include "prenorm/formats/dtype.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace prenorm {
namespace {

static_assert(std::endian::native == std::endian::little, "tensor files are little-endian");

struct Row {
  Dtype dtype;
  std::string_view name;
  std::size_t size;
};

constexpr std::array kDtypes = {
    Row{Dtype::kBool, "BOOL", 1},
    Row{Dtype::kU8, "U8", 1},
    Row{Dtype::kI8, "I8", 1},
    Row{Dtype::kF8E5M2, "F8_E5M2", 1},
    Row{Dtype::kF8E4M3, "F8_E4M3", 1},
    Row{Dtype::kF8E8M0, "F8_E8M0", 1},
    Row{Dtype::kF8E4M3FNUZ, "F8_E4M3FNUZ", 1},
    Row{Dtype::kF8E5M2FNUZ, "F8_E5M2FNUZ", 1},
    Row{Dtype::kI16, "I16", 2},
    Row{Dtype::kU16, "U16", 2},
    Row{Dtype::kF16, "F16", 2},
    Row{Dtype::kBF16, "BF16", 2},
    Row{Dtype::kI32, "I32", 4},
    Row{Dtype::kU32, "U32", 4},
    Row{Dtype::kF32, "F32", 4},
    Row{Dtype::kC64, "C64", 8},
    Row{Dtype::kF64, "F64", 8},
    Row{Dtype::kI64, "I64", 8},
    Row{Dtype::kU64, "U64", 8},
};

constexpr bool rows_follow_the_enum() {
  for (std::size_t i = 0; i < kDtypes.size(); ++i) {
    if (static_cast<std::size_t>(kDtypes[i].dtype) != i) return false;
  }
  return true;
}
static_assert(rows_follow_the_enum());

const Row& row(Dtype dtype) { return kDtypes[static_cast<std::size_t>(dtype)]; }

template <typename T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <typename Out>
void widen(Dtype dtype, std::span<const std::byte> bytes, std::span<Out> out) {
  const std::byte* from = bytes.data();
  switch (dtype) {
    case Dtype::kF16:
      for (Out& x : out) x = float_from_f16(load<std::uint16_t>(from)), from += 2;
      break;
    case Dtype::kBF16:
      for (Out& x : out) x = float_from_bf16(load<std::uint16_t>(from)), from += 2;
      break;
    case Dtype::kF32:
      for (Out& x : out) x = load<float>(from), from += 4;
      break;
    case Dtype::kF64:
      for (Out& x : out) x = static_cast<Out>(load<double>(from)), from += 8;
      break;
    default:
      break;
  }
}

template <typename T>
void widen_integers(std::span<const std::byte> bytes, std::span<Index> out) {
  const std::byte* from = bytes.data();
  for (Index& x : out) x = static_cast<Index>(load<T>(from)), from += sizeof(T);
}

}  // namespace

std::string_view dtype_name(Dtype dtype) { return row(dtype).name; }

std::optional<Dtype> dtype_from_name(std::string_view name) {
  const auto it = std::ranges::find(kDtypes, name, &Row::name);
  if (it == kDtypes.end()) return std::nullopt;
  return it->dtype;
}

std::size_t dtype_size(Dtype dtype) { return row(dtype).size; }

bool dtype_is_floating_point(Dtype dtype) {
  return dtype == Dtype::kF16 || dtype == Dtype::kBF16 || dtype == Dtype::kF32 ||
         dtype == Dtype::kF64;
}

bool dtype_is_integer(Dtype dtype) {
  constexpr std::array kIntegers = {Dtype::kU8,  Dtype::kI8,  Dtype::kI16, Dtype::kU16,
                                    Dtype::kI32, Dtype::kU32, Dtype::kI64, Dtype::kU64};
  return std::ranges::find(kIntegers, dtype) != kIntegers.end();
}

// binary16: sign 1, exponent 5 (bias 15), fraction 10; float: 1, 8 (bias 127), 23.
float float_from_f16(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000u) << 16;
  const std::uint32_t exponent = bits >> 10 & 31u, fraction = bits & 0x3FFu;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000u | fraction << 13);
  if (exponent == 0) {  // zero or subnormal: fraction · 2^-24, exact in float
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
}

std::uint16_t f16_from_float(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint32_t>(bits >> 16 & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
  std::uint32_t half;
  if (magnitude > 0x7F800000u) {
    half = 0x7E00u | (magnitude >> 13 & 0x3FFu);
  } else if (magnitude >= 0x47800000u) {  // 2^16 and more
    half = 0x7C00u;
  } else if (magnitude < 0x38800000u) {  // below 2^-14: the result is a multiple of 2^-24
    // Adding 1/2 puts the units of 2^-24 into the last place of a float, which the addition rounds.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    half = std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(0.5f);
  } else {
    const std::uint32_t odd = magnitude >> 13 & 1u;
    half = (magnitude - (112u << 23) + 0xFFFu + odd) >> 13;  // may carry up to infinity
  }
  return static_cast<std::uint16_t>(sign | half);
}

void floats_from(Dtype dtype, std::span<const std::byte> bytes, std::span<float> out) {
  if (dtype == Dtype::kF32 && !out.empty()) {
    std::memcpy(out.data(), bytes.data(), out.size_bytes());
    return;
  }
  widen(dtype, bytes, out);
}

void doubles_from(Dtype dtype, std::span<const std::byte> bytes, std::span<double> out) {
  widen(dtype, bytes, out);
}

bool integers_from(Dtype dtype, std::span<const std::byte> bytes, std::span<Index> out) {
  switch (dtype) {
    case Dtype::kU8:
      widen_integers<std::uint8_t>(bytes, out);
      break;
    case Dtype::kI8:
      widen_integers<std::int8_t>(bytes, out);
      break;
    case Dtype::kU16:
      widen_integers<std::uint16_t>(bytes, out);
      break;
    case Dtype::kI16:
      widen_integers<std::int16_t>(bytes, out);
      break;
    case Dtype::kU32:
      widen_integers<std::uint32_t>(bytes, out);
      break;
    case Dtype::kI32:
      widen_integers<std::int32_t>(bytes, out);
      break;
    case Dtype::kI64:
      widen_integers<std::int64_t>(bytes, out);
      break;
    case Dtype::kU64:
      widen_integers<std::int64_t>(bytes, out);  // 2^63 and more become negative
      return std::ranges::none_of(out, [](Index i) { return i < 0; });
    default:
      return false;
  }
  return true;
}

}  // namespace prenorm
