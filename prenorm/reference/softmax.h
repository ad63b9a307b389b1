// Softmax: p_i = exp(z_i) / Σ_j exp(z_j), over those i that take part.
#pragma once
#include <cmath>
#include <optional>
#include <type_traits>

#include "prenorm/reference/tensor.h"

namespace prenorm::reference {

// result(i) = softmax of score(0 .. n) over those i with seen(i); zero where it is not seen. The
// largest score is subtracted first: the result is the same and exp cannot overflow.
template <typename Score, typename Seen, typename Result>
void softmax_over(Index n, const Score& score, const Seen& seen, const Result& result) {
  using std::exp;
  using S = std::remove_cvref_t<decltype(score(0))>;
  std::optional<S> largest;
  for (Index i = 0; i < n; ++i) {
    if (seen(i) && (!largest || score(i) > *largest)) largest = score(i);
  }
  S sum(0);
  for (Index i = 0; i < n; ++i) {
    result(i) = seen(i) ? exp(score(i) - *largest) : S(0);
    sum += result(i);
  }
  for (Index i = 0; i < n; ++i) {
    if (seen(i)) result(i) /= sum;
  }
}

// Softmax of each row of x: [.., V].
template <typename S>
Tensor<S> softmax(const Tensor<S>& x) {
  Tensor<S> y(x.shape());
  for (Index n = 0; n < x.rows(); ++n) {
    softmax_over(
        x.columns(), [&](Index v) { return x(n, v); }, [](Index) { return true; },
        [&](Index v) -> S& { return y(n, v); });
  }
  return y;
}

}  // namespace prenorm::reference
