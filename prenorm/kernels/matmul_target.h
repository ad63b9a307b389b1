// The seam between the matrix product's driver (matmul.cc: who computes what) and its arithmetic
// (matmul_target.cc: one copy for each instruction set). Internal to kernels/.
#pragma once
#include "prenorm/kernels/matmul.h"

namespace prenorm::kernels {

// Of so few rows a product with an unpacked matrix takes about as long as reading that takes.
constexpr Index kFewRows = 8;

// Packed panels [panel][k][width] in one of two formats; or none.
struct Panels {
  const float* floats = nullptr;
  const std::uint16_t* bfloats = nullptr;
  Index stride = 0;  // elements from one panel to the next

  explicit operator bool() const { return floats != nullptr || bfloats != nullptr; }
  Panels from(Index panel) const {
    return {floats == nullptr ? nullptr : floats + panel * stride,
            bfloats == nullptr ? nullptr : bfloats + panel * stride, stride};
  }
};

// One piece of a product: some rows against some panels.
struct MatmulPiece {
  const float* a = nullptr;       // [rows, k]; of a weight gradient [k, rows]
  Index a_row = 0;                // elements between rows
  bool fetch_ahead = false;       // what the product touches does not stay near by itself
  const float* next_a = nullptr;  // what this thread will probably take next; or null
  Index next_rows = 0;
  bool weight_gradient = false;  // a is packed here; blocks are added to c without groups
  float* column_sums = nullptr;  // of a weight gradient's b, from this piece's columns on; or null
  Panels panels;                 // none: blocks of b are packed here
  const float* b = nullptr;      // [k, columns], or [columns, k] if transposed
  Index b_row = 0;
  bool b_transposed = false;
  float* scratch = nullptr;            // of this worker: piece_scratch() floats
  Index rows = 0, columns = 0, k = 0;  // of this piece; columns may end inside the last panel
  float* c = nullptr;                  // c[0, 0] of this piece
  Index c_row = 0;
  const Epilogue* epilogue = nullptr;
  Index m = 0, n = 0;  // where this piece stands in c, for the epilogue's operands
};

struct MatmulTarget {
  Index rows, width;  // of a tile
  // One panel: k × columns (at most width) of the source, zero-padded.
  void (*pack_plain)(const float* b, Index b_row, Index k, Index columns, float* panel);
  void (*pack_transposed)(const float* b, Index b_row, Index k, Index columns, float* panel);
  // To bfloat16, to nearest even.
  void (*narrow)(const float* from, Index count, std::uint16_t* to);
  // Floats that a piece of so many rows and columns works in.
  Index (*piece_scratch)(Index rows, Index columns, bool weight_gradient);
  void (*piece)(const MatmulPiece& piece);
  void (*column_sums)(const float* x, Index x_row, Index rows, Index columns, float* sums);
};

const MatmulTarget& matmul_target(Isa isa);

}  // namespace prenorm::kernels
