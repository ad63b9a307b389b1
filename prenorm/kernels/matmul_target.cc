#include "prenorm/kernels/matmul_target.h"

#include <algorithm>

#include "prenorm/base/bfloat16.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "prenorm/kernels/matmul_target.cc"
#include "prenorm/kernels/targets.h"
// The per-target parts come after the target has been chosen.
#include "prenorm/kernels/matmul_piece-inl.h"

HWY_BEFORE_NAMESPACE();
namespace prenorm::kernels::HWY_NAMESPACE {
#if PRENORM_FMA_TARGET
namespace {

void narrow(const float* from, Index count, std::uint16_t* to) {
  for (Index i = 0; i < count; ++i) to[i] = bf16_from_float(from[i]);
}

// sums[j] += Σ rows, in blocks of 256, each summed in double.
void column_sums(const float* x, Index x_row, Index rows, Index columns, float* sums) {
  constexpr Index kTogether = 48;  // totals on the stack
  for (Index j = 0; j < columns; j += kTogether) {
    const Index count = std::min(kTogether, columns - j);
    for (Index m = 0; m < rows; m += kTokenBlock) {
      alignas(64) double totals[kTogether] = {};
      add_to_totals(x + m * x_row + j, x_row, std::min(kTokenBlock, rows - m), count, totals);
      close_totals(totals, count, sums + j);
    }
  }
}

}  // namespace

const MatmulTarget kMatmulTarget = {
    kTileRows,     kTileWidth, pack_plain_panel, pack_transposed_panel, narrow,
    piece_scratch, piece,      column_sums};

#endif  // PRENORM_FMA_TARGET
}  // namespace prenorm::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace prenorm::kernels {
PRENORM_TARGET_TABLE(MatmulTarget, matmul_target, kMatmulTarget)
}  // namespace prenorm::kernels
#endif
