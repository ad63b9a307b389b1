#include "prenorm/study/diagnose_product.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace prenorm {
namespace {

struct Factors {
  Values x;
  Floats w;
  Values exact;  // x w, in double
};

Factors factors(Index rows, Index in, Index columns) {
  std::mt19937 generator(7);
  std::normal_distribution<float> normal;
  Factors out{Values({rows, in}), Floats({in, columns}), Values({rows, columns})};
  for (double& v : out.x) v = static_cast<double>(normal(generator));
  for (float& v : out.w) v = normal(generator);
  for (Index r = 0; r < rows; ++r) {
    for (Index o = 0; o < columns; ++o) {
      for (Index k = 0; k < in; ++k) {
        out.exact(r, o) = std::fma(out.x(r, k), static_cast<double>(out.w(k, o)), out.exact(r, o));
      }
    }
  }
  return out;
}

double farthest(const Values& a, const Values& b) {
  double most = 0.0;
  for (Index i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

TEST(DiagnoseProduct, in_double_is_one_chain_of_sums_on_any_number_of_threads) {
  const Factors f = factors(9, 40, 150);
  for (const int threads : {1, 3}) {
    const Runtime run({.threads = threads});
    EXPECT_EQ(product(run, f.x, f.w, Arithmetic::kDouble, true), f.exact);
    EXPECT_EQ(product(run, f.x, f.w, Arithmetic::kDouble, false), f.exact);
  }
}

TEST(DiagnoseProduct, in_float_is_off_by_the_rounding_of_float_and_not_by_more) {
  const Factors f = factors(9, 40, 150);
  const Runtime run;
  for (const Arithmetic arithmetic : {Arithmetic::kFloat, Arithmetic::kQuick}) {
    const double off = farthest(product(run, f.x, f.w, arithmetic, false), f.exact);
    EXPECT_GT(off, 1e-7);
    EXPECT_LT(off, 1e-4);
  }
}

}  // namespace
}  // namespace prenorm
