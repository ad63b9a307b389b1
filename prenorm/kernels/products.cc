#include "prenorm/kernels/products.h"

#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace prenorm {
namespace {

#if defined(__x86_64__)
bool has_bit(unsigned word, int bit) { return (word >> bit & 1u) != 0; }

// Which of the two instructions the CPU has and the system saves the registers of.
struct Units {
  bool dot = false, matrix = false;
};

std::uint64_t saved_registers() {
  unsigned low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return std::uint64_t{high} << 32 | low;
}

// Linux gives out the matrix unit's registers, 8 KiB a thread, only to processes that ask.
bool may_use_tiles() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

Units detect() {
  Units units;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || !has_bit(c, 27)) return units;  // OSXSAVE
  constexpr std::uint64_t kVectors = 0xe6, kTiles = 0x60000;
  const std::uint64_t saved = saved_registers();
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return units;
  const bool bf16_tiles = has_bit(d, 24) && has_bit(d, 22);  // AMX-TILE, AMX-BF16
  if (__get_cpuid_count(7, 1, &a, &b, &c, &d) != 0) {
    units.dot = has_bit(a, 5) && (saved & kVectors) == kVectors;  // AVX512_BF16
  }
  units.matrix = bf16_tiles && (saved & kTiles) == kTiles && may_use_tiles();
  return units;
}

const Units& units() {
  static const Units found = detect();
  return found;
}
#endif

}  // namespace

std::string_view to_string(Products products) {
  return name_in(kProducts, products, "dtype", "known products");
}

Products products_from_string(std::string_view name) { return value_in(kProducts, name, "dtype"); }

std::string_view bf16_unit_name(Bf16Unit unit) {
  switch (unit) {
    case Bf16Unit::kFusedMultiplyAdd:
      return "fused multiply-adds";
    case Bf16Unit::kDotProduct:
      return "AVX512_BF16";
    case Bf16Unit::kMatrix:
      return "AMX";
  }
  return "unknown";
}

bool has_bf16_unit([[maybe_unused]] Isa isa, Bf16Unit unit) {
  if (unit == Bf16Unit::kFusedMultiplyAdd) return true;
#if defined(__x86_64__)
  if (isa == Isa::kAvx512) return unit == Bf16Unit::kMatrix ? units().matrix : units().dot;
#endif
  return false;
}

Bf16Unit bf16_unit(Isa isa, Products products) {
  if (products == Products::kBfloat16Tile && has_bf16_unit(isa, Bf16Unit::kMatrix)) {
    return Bf16Unit::kMatrix;
  }
  if (products == Products::kBfloat16Dot && has_bf16_unit(isa, Bf16Unit::kDotProduct)) {
    return Bf16Unit::kDotProduct;
  }
  return Bf16Unit::kFusedMultiplyAdd;
}

Products fastest_bf16_products(Isa isa) {
  return has_bf16_unit(isa, Bf16Unit::kMatrix) ? Products::kBfloat16Tile : Products::kBfloat16Dot;
}

}  // namespace prenorm
