#include "prenorm/kernels/add.h"

#include <algorithm>

#include "prenorm/kernels/each_row.h"
#include "prenorm/kernels/profile.h"

namespace prenorm::kernels {

// No target of its own: one rounding an element, and memory is the limit at any vector width.
void add(const Runtime& run, ConstMatrix a, ConstMatrix b, Matrix y) {
  const ProfileScope scope(run, Part::kOther, 0.0, 0.0);
  each_row(run, y.dim(0), y.dim(1), [&](Index n) {
    const float *from = a[n].data(), *other = b[n].data();
    float* to = y[n].data();
    for (Index c = 0; c < y.dim(1); ++c) to[c] = from[c] + other[c];
  });
}

void fill_zero(const Runtime& run, Matrix y) {
  const ProfileScope scope(run, Part::kOther, 0.0, 0.0);
  each_row(run, y.dim(0), y.dim(1), [&](Index n) { std::fill_n(y[n].data(), y.dim(1), 0.0f); });
}

}  // namespace prenorm::kernels
