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

// Rows [begin, end) of kVectors times sixteen columns, summed in double and added to the sums.
template <int kVectors>
void add_token_block(const float* x, Index x_row, Index begin, Index end, float* sums) {
  D16 sum[kVectors];
  for (D16& s : sum) s = set_d(0.0);
  for (Index m = begin; m < end; ++m) {
    const float* row = x + m * x_row;
    for (int v = 0; v < kVectors; ++v) sum[v] = add(sum[v], load_d(row + v * kLanes));
  }
  for (int v = 0; v < kVectors; ++v) {
    store_d(add(load_d(sums + v * kLanes), sum[v]), sums + v * kLanes);
  }
}

void add_token_block_part(const float* x, Index x_row, Index begin, Index end, Index columns,
                          float* sums) {
  D16 sum = set_d(0.0);
  for (Index m = begin; m < end; ++m) sum = add(sum, load_d_part(x + m * x_row, columns, 0.0f));
  store_d_part(add(load_d_part(sums, columns, 0.0f), sum), sums, columns);
}

// sums[j] += Σ rows, in blocks of 256, each summed in double; some whole lines of a row at a time.
void column_sums(const float* x, Index x_row, Index rows, Index columns, float* sums) {
  constexpr int kTogether = 4;
  for (Index m = 0; m < rows; m += kTokenBlock) {
    const Index end = std::min(rows, m + kTokenBlock);
    Index j = 0;
    for (; j + kTogether * kLanes <= columns; j += kTogether * kLanes) {
      add_token_block<kTogether>(x + j, x_row, m, end, sums + j);
    }
    for (; j + kLanes <= columns; j += kLanes) add_token_block<1>(x + j, x_row, m, end, sums + j);
    if (j < columns) add_token_block_part(x + j, x_row, m, end, columns - j, sums + j);
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
