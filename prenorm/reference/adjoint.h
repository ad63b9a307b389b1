// Proof of a gradient, with no step size to tune. For a function f, its Jacobian J at x, a
// direction v and an output cotangent dy, whatever they are,
//
//   ⟨dy, J v⟩ = ⟨Jᵀ dy, v⟩
//
// The left side comes from the textbook run on dual numbers, the right side from the backward pass
// under test: the textbook's, or a kernel's on floats.
//
//   std::vector<Tensor<double>> x{random_tensor({4, 8}, 1), random_tensor({8}, 2)};
//   const Adjoint adjoint = check_adjoint(
//       [](const auto& in) { return layer_norm(in[0], {in[1], {}}); },
//       x, v, dy, {to_tensor(dx), to_tensor(dweight)});
//   EXPECT_LE(adjoint.relative_error(), 1e-6);
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "prenorm/base/philox.h"
#include "prenorm/reference/dual.h"
#include "prenorm/reference/tensor.h"

namespace prenorm::reference {

struct Adjoint {
  double forward = 0.0;   // ⟨dy, J v⟩
  double backward = 0.0;  // ⟨Jᵀ dy, v⟩
  double terms = 0.0;     // the larger of the two sums of |terms|

  // |forward − backward| / Σ|terms|. A dot product of n terms is known to within a few ulp of the
  // sum of their sizes, not of its own value, which may be near zero by cancellation: so this ratio
  // is the rounding error of the arithmetic whatever the draw of v and dy, and a wrong term shows
  // with its share of the whole. Infinite where there is nothing to compare (all terms zero) or a
  // NaN: such a check proves nothing and must not pass.
  double relative_error() const {
    const double error = std::abs(forward - backward) / terms;
    return terms > 0.0 && std::isfinite(error) ? error : std::numeric_limits<double>::infinity();
  }
};

struct DotProduct {
  double sum = 0.0, terms = 0.0;
  void add(double a, double b) {
    sum += a * b;
    terms += std::abs(a * b);
  }
};

// x + ε v as dual numbers. Throws ShapeError if they do not fit.
inline Tensor<Dual<double>> with_direction(const Tensor<double>& x, const Tensor<double>& v) {
  if (x.absent()) return {};
  check_shape("adjoint: direction", v.shape(), x.shape());
  Tensor<Dual<double>> out(x.shape());
  for (Index i = 0; i < x.size(); ++i) out[i] = {x[i], v[i]};
  return out;
}

// f takes a std::vector<Tensor<Dual<double>>> with the shapes of x and returns a
// Tensor<Dual<double>> of dy's shape; dx[i] is the gradient of x[i] that is to be proved.
template <typename F>
Adjoint check_adjoint(const F& f, const std::vector<Tensor<double>>& x,
                      const std::vector<Tensor<double>>& v, const Tensor<double>& dy,
                      const std::vector<Tensor<double>>& dx) {
  if (v.size() != x.size() || dx.size() != x.size()) {
    throw ShapeError("adjoint: expected " + std::to_string(x.size()) +
                     " directions and gradients, found " + std::to_string(v.size()) + " and " +
                     std::to_string(dx.size()));
  }
  std::vector<Tensor<Dual<double>>> duals;
  for (std::size_t i = 0; i < x.size(); ++i) duals.push_back(with_direction(x[i], v[i]));
  const Tensor<Dual<double>> y = f(duals);
  check_shape("adjoint: dy", dy.shape(), y.shape());

  DotProduct forward, backward;
  for (Index i = 0; i < y.size(); ++i) forward.add(dy[i], y[i].derivative);
  for (std::size_t i = 0; i < x.size(); ++i) {
    check_shape("adjoint: gradient", dx[i].shape(), x[i].shape());
    for (Index j = 0; j < x[i].size(); ++j) backward.add(dx[i][j], v[i][j]);
  }
  return {forward.sum, backward.sum, std::max(forward.terms, backward.terms)};
}

// Numbers in [−size, size), a function of the seed; exact in float, so that a kernel on floats and
// the textbook in double start from the same input.
inline Tensor<double> random_tensor(const std::vector<Index>& shape, std::uint64_t seed,
                                    double size = 1.0) {
  const PhiloxKey key = RandomStream{.seed = seed}.key();
  Tensor<double> out(shape);
  for (Index i = 0; i < out.size(); ++i) {
    const double uniform = random_double(key, static_cast<std::uint64_t>(i));
    out[i] = static_cast<double>(static_cast<float>((2.0 * uniform - 1.0) * size));
  }
  return out;
}

// A random tensor of the shape of each one of x; absent where that is absent.
inline std::vector<Tensor<double>> random_like(const std::vector<Tensor<double>>& x,
                                               std::uint64_t seed, double size = 1.0) {
  std::vector<Tensor<double>> out;
  for (const Tensor<double>& one : x) {
    out.push_back(one.absent() ? Tensor<double>() : random_tensor(one.shape(), ++seed, size));
  }
  return out;
}

}  // namespace prenorm::reference
