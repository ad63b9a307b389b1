// Element types of tensors in files, and conversions between the floating-point ones. All
// conversions round to the nearest, ties to even, overflow to infinity and keep NaN a NaN; widening
// is exact.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "prenorm/base/bfloat16.h"
#include "prenorm/base/index.h"

namespace prenorm {

// In the order of the safetensors serializer, which writes tensors of a later type first.
enum class Dtype {
  kBool,
  kU8,
  kI8,
  kF8E5M2,
  kF8E4M3,
  kF8E8M0,
  kF8E4M3FNUZ,
  kF8E5M2FNUZ,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kC64,
  kF64,
  kI64,
  kU64,
};

std::string_view dtype_name(Dtype dtype);  // as in safetensors: "F32", "BF16", ...
std::optional<Dtype> dtype_from_name(std::string_view name);
std::size_t dtype_size(Dtype dtype);        // bytes of one element
bool dtype_is_floating_point(Dtype dtype);  // F16, BF16, F32, F64: those that floats_from() reads
bool dtype_is_integer(Dtype dtype);  // I8 to I64, U8 to U64: those that integers_from() reads

float float_from_f16(std::uint16_t bits);
std::uint16_t f16_from_float(float value);

// Converts elements of a floating-point dtype; `bytes` need no alignment.
// Requires: dtype_is_floating_point(dtype), bytes.size() == out.size() * dtype_size(dtype).
void floats_from(Dtype dtype, std::span<const std::byte> bytes, std::span<float> out);
void doubles_from(Dtype dtype, std::span<const std::byte> bytes, std::span<double> out);

// The same of integers; false where one is 2^63 or more.
// Requires: dtype_is_integer(dtype), bytes.size() == out.size() * dtype_size(dtype).
bool integers_from(Dtype dtype, std::span<const std::byte> bytes, std::span<Index> out);

}  // namespace prenorm
