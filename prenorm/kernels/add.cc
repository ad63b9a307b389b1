#include "prenorm/kernels/add.h"

#include <algorithm>

namespace prenorm::kernels {

namespace {

// Rows in pieces of about 64 KiB.
template <typename Row>
void each_row(const Runtime& run, Matrix y, const Row& row) {
  const Index rows = std::max<Index>(1, 16384 / std::max<Index>(1, y.dim(1)));
  run.pool().run(ceil_div(y.dim(0), rows), [&](Index piece, int) {
    const Index end = std::min(y.dim(0), (piece + 1) * rows);
    for (Index n = piece * rows; n < end; ++n) row(n);
  });
}

}  // namespace

// No target of its own: one rounding an element, and memory is the limit at any vector width.
void add(const Runtime& run, ConstMatrix a, ConstMatrix b, Matrix y) {
  each_row(run, y, [&](Index n) {
    const float *from = a[n].data(), *other = b[n].data();
    float* to = y[n].data();
    for (Index c = 0; c < y.dim(1); ++c) to[c] = from[c] + other[c];
  });
}

void fill_zero(const Runtime& run, Matrix y) {
  each_row(run, y, [&](Index n) { std::fill_n(y[n].data(), y.dim(1), 0.0f); });
}

}  // namespace prenorm::kernels
