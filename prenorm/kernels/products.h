// In which numbers the matrix products of training are computed, and what computes them here.
//
// With bfloat16 products both operands are rounded to bfloat16 and every sum is in float32, in one
// of two orders, each that of an instruction. The order is part of the arithmetic: it is chosen
// once for a run, and where a CPU lacks the instruction the same bits come from fused
// multiply-adds. matmul_bf16.h says what the orders are.
#pragma once
#include <string_view>

#include "prenorm/base/name_table.h"
#include "prenorm/kernels/isa.h"

namespace prenorm {

enum class Products { kFloat32, kBfloat16Dot, kBfloat16Tile };

// Name and value of each, as files spell them.
inline constexpr NameTable<Products, 3> kProducts{{
    {"f32", Products::kFloat32},
    {"bf16-dot", Products::kBfloat16Dot},
    {"bf16-tile", Products::kBfloat16Tile},
}};
std::string_view to_string(Products products);
// Throws ConfigError naming the known ones.
Products products_from_string(std::string_view name);

// What computes products in bfloat16: fused multiply-adds of float32 on the widened numbers,
// VDPBF16PS (dot) or TDPBF16PS (tile).
enum class Bf16Unit { kFusedMultiplyAdd, kDotProduct, kMatrix };

// "fused multiply-adds", "AVX512_BF16", "AMX".
std::string_view bf16_unit_name(Bf16Unit unit);

// Whether this CPU has the unit and its kernels go with those of `isa`. Asks the system for the use
// of the matrix unit's registers, which it grants to a process once and for all.
bool has_bf16_unit(Isa isa, Bf16Unit unit);

// The fastest unit of this CPU for an order of sums, with the kernels of `isa`.
Bf16Unit bf16_unit(Isa isa, Products products);

// The order of sums that this CPU is fastest at.
Products fastest_bf16_products(Isa isa);

}  // namespace prenorm
