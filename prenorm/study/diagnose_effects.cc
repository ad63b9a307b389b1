#include "prenorm/study/diagnose_effects.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "prenorm/study/sum_of.h"

namespace prenorm {
namespace {

constexpr Index kColumns = 128;  // some tell as much as all
// One mistake beside another does some of what it does alone, hardly more.
constexpr double kLeast = 0.1, kMost = 1.3;

double product_of(const std::vector<double>& a, const std::vector<double>& b) {
  return sum_of(static_cast<Index>(a.size()), [&](Index i) {
    const auto k = static_cast<std::size_t>(i);
    return a[k] * b[k];
  });
}

double within(double part) { return std::clamp(part, kLeast, kMost); }

}  // namespace

DiagnoseEffects::DiagnoseEffects(const Values& target)
    : target_(some(target)), square_(product_of(target_, target_)) {}

std::vector<double> DiagnoseEffects::some(const Values& x) const {
  const Index step = std::max<Index>(1, x.columns() / kColumns);
  std::vector<double> out;
  for (Index n = 0; n < x.rows(); ++n) {
    for (Index c = 0; c < x.columns(); c += step) out.push_back(x(n, c));
  }
  return out;
}

std::size_t DiagnoseEffects::add(const Values& effect) {
  effects_.push_back(some(effect));
  along_.push_back(product_of(effects_.back(), target_));
  between_.emplace_back();
  for (const std::vector<double>& other : effects_) {
    between_.back().push_back(product_of(effects_.back(), other));
  }
  return effects_.size() - 1;
}

double DiagnoseEffects::left(std::size_t a, std::size_t b) const {
  if (a < b) std::swap(a, b);
  const double aa = between_[a][a], bb = between_[b][b], ab = between_[a][b];
  const double ta = along_[a], tb = along_[b];
  if (!std::isfinite(aa) || !std::isfinite(bb) || aa <= 0.0 || bb <= 0.0) {
    return std::numeric_limits<double>::infinity();
  }
  const auto left_by = [&](double x, double y) {
    return (square_ + x * x * aa + y * y * bb + 2.0 * (x * y * ab - x * ta - y * tb)) / square_;
  };
  const double determinant = aa * bb - ab * ab;
  if (determinant > 1e-9 * aa * bb) {
    const double x = (ta * bb - tb * ab) / determinant, y = (tb * aa - ta * ab) / determinant;
    if (x == within(x) && y == within(y)) return left_by(x, y);
  }
  // The least of a convex function over a square that does not hold its minimum is on an edge.
  double least = std::numeric_limits<double>::infinity();
  for (const double edge : {kLeast, kMost}) {
    least = std::min({least, left_by(edge, within((tb - edge * ab) / bb)),
                      left_by(within((ta - edge * ab) / aa), edge)});
  }
  return least;
}

}  // namespace prenorm
