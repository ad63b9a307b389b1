#include "prenorm/kernels/matmul_target.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "prenorm/kernels/matmul_target.cc"
#include "prenorm/kernels/targets.h"
// The per-target parts come after the target has been chosen.
#include "prenorm/kernels/activation-inl.h"
#include "prenorm/kernels/pack-inl.h"
#include "prenorm/kernels/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace prenorm::kernels::HWY_NAMESPACE {
#if PRENORM_FMA_TARGET
namespace {

void pack_plain_panel(const float* b, Index b_row, Index k, Index columns, float* panel) {
  pack_rows(b, b_row, k, columns, kTileWidth, panel, kTileWidth);
}
void pack_transposed_panel(const float* b, Index b_row, Index k, Index columns, float* panel) {
  pack_transposed(b, b_row, k, columns, kTileWidth, panel, kTileWidth);
}

// c[i, :] += the tile's sums.
template <int Rows>
HWY_INLINE void add_rows(const Tile<Rows, kTileVectors>& t, float* c, Index c_row) {
  const DF d;
#pragma GCC unroll 8
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < kTileVectors; ++j) {
      float* to = c + i * c_row + j * kFloatLanes;
      hn::StoreU(hn::Add(hn::LoadU(d, to), t.sum[i][j]), d, to);
    }
  }
}

// c[i, :] += the sums over k, group after group and in each block after block; `group` is
// kSumGroup, or kSumBlock for blocks alone. c is a full-width tile.
template <int Rows>
HWY_INLINE void add_tile(const float* a, Index a_row, Index a_step, const float* panel, Index k,
                         Index group, float* c, Index c_row) {
  alignas(64) float sums[Rows * kTileWidth];
  for (Index k0 = 0; k0 < k; k0 += kSumBlock) {
    auto t =
        tile_product<Rows, kTileVectors>(a + k0 * a_step, a_row, a_step, panel + k0 * kTileWidth,
                                         kTileWidth, std::min(kSumBlock, k - k0));
    const Index end = k0 + kSumBlock;
    const bool opens = k0 % group == 0, closes = end >= k || end % group == 0;
    if (opens && closes) {
      add_rows(t, c, c_row);
      continue;
    }
    const DF d;
#pragma GCC unroll 8
    for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 4
      for (int j = 0; j < kTileVectors; ++j) {
        float* sum = sums + i * kTileWidth + j * kFloatLanes;
        if (!opens) t.sum[i][j] = hn::Add(hn::Load(d, sum), t.sum[i][j]);
        if (!closes) hn::Store(t.sum[i][j], d, sum);
      }
    }
    if (closes) add_rows(t, c, c_row);
  }
}

template <int Rows>
void add_tile_of(Index rows, const float* a, Index a_row, Index a_step, const float* panel, Index k,
                 Index group, float* c, Index c_row) {
  if constexpr (Rows > 0) {
    if (rows == Rows) return add_tile<Rows>(a, a_row, a_step, panel, k, group, c, c_row);
    add_tile_of<Rows - 1>(rows, a, a_row, a_step, panel, k, group, c, c_row);
  }
}

// What one row of a tile starts from.
HWY_INLINE void start_row(const MatmulPiece& p, Index n, Index columns, const float* c, float* to) {
  const Epilogue& e = *p.epilogue;
  if (!p.first || e.accumulate) {
    if (to != c) std::copy_n(c, columns, to);
  } else if (e.bias) {
    std::copy_n(e.bias.data() + p.n + n, columns, to);
  } else {
    std::fill_n(to, columns, 0.0f);
  }
}

HWY_INLINE VF activate(Activation act, VF x) {
  switch (act) {
    case Activation::kRelu:
      return relu(x);
    case Activation::kGelu:
      return gelu_erf(x);
    case Activation::kGeluTanh:
      return gelu_tanh(x);
  }
  return x;
}
HWY_INLINE VF activate_grad(Activation act, VF x) {
  switch (act) {
    case Activation::kRelu:
      return relu_grad(x);
    case Activation::kGelu:
      return gelu_erf_grad(x);
    case Activation::kGeluTanh:
      return gelu_tanh_grad(x);
  }
  return x;
}

// The epilogue of `count` (a vector's lanes) elements of one row.
HWY_INLINE void finish_vector(const Epilogue& e, Index m, Index n, float* c) {
  const DF d;
  const VF sum = hn::LoadU(d, c);
  if (e.residual) {
    hn::StoreU(hn::Add(hn::LoadU(d, e.residual[m].data() + n), sum), d, c);
  } else if (e.activated) {
    hn::StoreU(activate(e.activation, sum), d, e.activated[m].data() + n);
  } else if (e.activation_input) {
    const VF x = hn::LoadU(d, e.activation_input[m].data() + n);
    hn::StoreU(hn::Mul(sum, activate_grad(e.activation, x)), d, c);
  }
}

// The same for the last columns, through padded copies.
void finish_part(const Epilogue& e, Index m, Index n, Index count, float* c) {
  alignas(64) float sum[kFloatLanes] = {}, operand[kFloatLanes] = {}, out[kFloatLanes] = {};
  std::copy_n(c, count, sum);
  Epilogue part = e;
  if (e.residual) {
    std::copy_n(e.residual[m].data() + n, count, operand);
    part.residual = ConstMatrix(operand, {1, kFloatLanes});
  } else if (e.activated) {
    part.activated = Matrix(out, {1, kFloatLanes});
  } else if (e.activation_input) {
    std::copy_n(e.activation_input[m].data() + n, count, operand);
    part.activation_input = ConstMatrix(operand, {1, kFloatLanes});
  }
  finish_vector(part, 0, 0, sum);
  if (e.activated) {
    std::copy_n(out, count, e.activated[m].data() + n);
  } else {
    std::copy_n(sum, count, c);
  }
}

void finish_row(const MatmulPiece& p, Index row, Index n, Index columns, float* c) {
  const Epilogue& e = *p.epilogue;
  Index j = 0;
  for (; j + kFloatLanes <= columns; j += kFloatLanes) {
    finish_vector(e, p.m + row, p.n + n + j, c + j);
  }
  if (j < columns) finish_part(e, p.m + row, p.n + n + j, columns - j, c + j);
}

// All row tiles of the piece against one panel.
void one_panel(const MatmulPiece& p, Index n, const float* panel) {
  const Epilogue& e = *p.epilogue;
  const Index columns = std::min(kTileWidth, p.columns - n);
  const bool finish = p.last && (e.residual || e.activated || e.activation_input);
  const bool whole = columns == kTileWidth;
  alignas(64) float edge[kTileRows * kTileWidth];
  if (!whole) std::fill_n(edge, kTileRows * kTileWidth, 0.0f);
  for (Index m = 0; m < p.rows; m += kTileRows) {
    const Index rows = std::min<Index>(kTileRows, p.rows - m);
    float* c = p.c + m * p.c_row + n;
    float* tile = whole ? c : edge;
    const Index tile_row = whole ? p.c_row : kTileWidth;
    for (Index i = 0; i < rows; ++i) {
      start_row(p, n, columns, c + i * p.c_row, tile + i * tile_row);
    }
    if (p.a_transposed) {
      add_tile_of<kTileRows>(rows, p.a_scratch + m * p.k, 1, kTileRows, panel, p.k, kSumBlock, tile,
                             tile_row);
    } else {
      add_tile_of<kTileRows>(rows, p.a + m * p.a_row, p.a_row, 1, panel, p.k, kSumGroup, tile,
                             tile_row);
    }
    for (Index i = 0; i < rows; ++i) {
      float* to = c + i * p.c_row;
      if (!whole) std::copy_n(tile + i * tile_row, columns, to);
      if (finish) finish_row(p, m + i, n, columns, to);
    }
  }
}

// aᵀ as tiles of [k][kTileRows]: row by row of a, which is how it lies in memory.
void pack_left(const MatmulPiece& p) {
  const Index whole = p.rows / kTileRows * kTileRows;
  for (Index k = 0; k < p.k; ++k) {
    const float* from = p.a + k * p.a_row;
    float* to = p.a_scratch + k * kTileRows;
    for (Index m = 0; m < whole; m += kTileRows) {
      std::memcpy(to + m * p.k, from + m, kTileRows * sizeof(float));
    }
    for (Index m = whole; m < round_up(p.rows, kTileRows); ++m) {
      to[whole * p.k + m - whole] = m < p.rows ? from[m] : 0.0f;
    }
  }
}

void piece(const MatmulPiece& p) {
  if (p.a_transposed) pack_left(p);
  for (Index n = 0; n < p.columns; n += kTileWidth) {
    one_panel(p, n, p.panels + n / kTileWidth * p.panel_stride);
  }
}

// sums[j] += Σ rows, in blocks of 256, each summed in double.
void column_sums(const float* x, Index x_row, Index rows, Index columns, float* sums) {
  for (Index j = 0; j < columns; j += kLanes) {
    const Index count = std::min(kLanes, columns - j);
    for (Index m0 = 0; m0 < rows; m0 += kTokenBlock) {
      const Index m1 = std::min(rows, m0 + kTokenBlock);
      D16 sum = set_d(0.0);
      if (count == kLanes) {
        for (Index m = m0; m < m1; ++m) sum = add(sum, load_d(x + m * x_row + j));
        store_d(add(load_d(sums + j), sum), sums + j);
      } else {
        for (Index m = m0; m < m1; ++m) {
          sum = add(sum, load_d_part(x + m * x_row + j, count, 0.0f));
        }
        store_d_part(add(load_d_part(sums + j, count, 0.0f), sum), sums + j, count);
      }
    }
  }
}

}  // namespace

const MatmulTarget kMatmulTarget = {kTileRows, kTileWidth, pack_plain_panel, pack_transposed_panel,
                                    piece,     column_sums};

#endif  // PRENORM_FMA_TARGET
}  // namespace prenorm::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace prenorm::kernels {
PRENORM_TARGET_TABLE(MatmulTarget, matmul_target, kMatmulTarget)
}  // namespace prenorm::kernels
#endif
