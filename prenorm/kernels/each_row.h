// A loop over rows, cut into pieces for the threads. Which thread takes a row changes no bit of it.
// Internal to kernels/.
//
//   each_row(run, x.dim(0), x.dim(1), [&](Index n) { … });
#pragma once
#include <algorithm>

#include "prenorm/kernels/runtime.h"

namespace prenorm::kernels {

// About 64 KiB of floats: enough work to be worth handing out, and half of a core's nearest cache.
constexpr Index kPieceElements = 16384;

// Rows to a piece of about `elements`, for rows of `columns`.
constexpr Index rows_of_piece(Index columns, Index elements = kPieceElements) {
  return std::max<Index>(1, elements / std::max<Index>(1, columns));
}

// Calls row(n) for n in [0, rows). `elements` is smaller for rows whose elements take long.
template <typename Row>
void each_row(const Runtime& run, Index rows, Index columns, const Row& row,
              Index elements = kPieceElements) {
  const Index height = rows_of_piece(columns, elements);
  run.pool().run(ceil_div(rows, height), [&](Index piece, int) {
    const Index end = std::min(rows, (piece + 1) * height);
    for (Index n = piece * height; n < end; ++n) row(n);
  });
}

}  // namespace prenorm::kernels
