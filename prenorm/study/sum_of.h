// Sums of doubles whose order is of no matter.
//
//   const double squares = sum_of(n, [&](Index i) { return x[i] * x[i]; });
#pragma once
#include "prenorm/base/index.h"

namespace prenorm {

// Σ f(i) over n in four chains, which a processor adds at the same time.
double sum_of(Index n, const auto& f) {
  double sum[4] = {};
  Index i = 0;
  for (; i + 4 <= n; i += 4) {
    for (Index k = 0; k < 4; ++k) sum[k] += f(i + k);
  }
  for (; i < n; ++i) sum[0] += f(i);
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

}  // namespace prenorm
