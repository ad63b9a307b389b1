// The seam between the products in bfloat16 (matmul_bf16.cc: who computes what) and their
// arithmetic: packing and epilogues of each instruction set (bf16_target.cc), and a kernel for each
// unit and order of sums. Internal to kernels/.
//
// Operands are padded with zeros to whole blocks, which add nothing to a sum:
//   left   [M, K]: rows, each `row` elements apart, M to a multiple of 32, K to one of 32
//   right  [K, N]: panels of 16 columns [panel][K / 2][16][2], N to a multiple of 32
#pragma once
#include "prenorm/kernels/matmul_bf16.h"

namespace prenorm::kernels {

constexpr Index kBf16Side = 32;   // of a block of c
constexpr Index kBf16Depth = 32;  // of k that the order of sums `tile` takes together
constexpr Index kBf16Panel = 16;  // columns of a panel

// Elements from one row of a left operand to the next: a line more than its k, which a power of two
// apart would share the cache's sets.
constexpr Index bf16_left_row(Index k) { return round_up(k, kBf16Depth) + 32; }

// A block of c, 32 × 32: goes on with its sums over some pairs of k.
struct Bf16Block {
  const std::uint16_t* left = nullptr;  // 32 rows
  Index left_row = 0;
  const std::uint16_t* right = nullptr;  // two panels
  Index right_panel = 0;                 // elements from one panel to the next
  Index depth = 0;                       // of k; a multiple of 32
  const float* from = nullptr;           // the sums so far; null: zero
  Index from_row = 0;
  float* to = nullptr;
  Index to_row = 0;
};

struct Bf16Kernel {
  void (*begin)();  // on the thread that computes, before some blocks
  void (*block)(const Bf16Block& block);
  void (*end)();
};

struct Bf16Target {
  // Rounds `count` numbers; those smaller than `floor` become zero. To and from any address.
  void (*pack_row)(const float* x, Index count, float floor, std::uint16_t* to);
  // 32 of k (or `depth`, the others zero) of the left operand from its transpose x [k, rows]; rows
  // to a multiple of 32.
  void (*pack_left_transposed)(const float* x, Index x_row, Index depth, Index rows, float floor,
                               std::uint16_t* to, Index to_row);
  // The same from rows that were rounded and padded before.
  void (*transpose_left)(const std::uint16_t* x, Index x_row, Index rows, std::uint16_t* to,
                         Index to_row);
  // 32 of k (or `depth`) of the right operand, from x [k, columns] or [columns, k].
  void (*pack_right)(const float* x, Index x_row, Index depth, Index columns, float floor,
                     std::uint16_t* to, Index to_panel);
  void (*pack_right_transposed)(const float* x, Index x_row, Index depth, Index columns,
                                float floor, std::uint16_t* to, Index to_panel);
  // c = bias + sums, then the epilogue, for [rows, columns] at most 32 × 32 from (m, n) of c.
  void (*finish)(const Bf16Epilogue& epilogue, Index m, Index n, Index rows, Index columns,
                 const float* sums, float* c, Index c_row);
  Bf16Kernel dot, tile;  // by fused multiply-adds
};

const Bf16Target& bf16_target(Isa isa);

// Requires: has_bf16_unit(isa, unit), and that the unit computes products in this order.
const Bf16Kernel& bf16_kernel(Isa isa, Products products, Bf16Unit unit);

}  // namespace prenorm::kernels
