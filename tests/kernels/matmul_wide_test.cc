#include "prenorm/kernels/matmul_wide.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace prenorm::kernels {
namespace {

struct Shape {
  Index m, k, n;
};
// Rows and columns that fill no tile, one of each, and more k than one block.
const Shape kShapes[] = {{1, 1, 1},    {4, 16, 16},   {5, 33, 37}, {9, 600, 50},
                         {13, 40, 32}, {3, 257, 129}, {2, 0, 3}};

template <typename T>
std::vector<T> chains(const Shape& s, const std::vector<T>& a, const std::vector<float>& b) {
  std::vector<T> c(static_cast<std::size_t>(s.m * s.n), T(0));
  for (Index m = 0; m < s.m; ++m) {
    for (Index n = 0; n < s.n; ++n) {
      T& sum = c[static_cast<std::size_t>(m * s.n + n)];
      for (Index k = 0; k < s.k; ++k) {
        sum = std::fma(a[static_cast<std::size_t>(m * s.k + k)],
                       static_cast<T>(b[static_cast<std::size_t>(k * s.n + n)]), sum);
      }
    }
  }
  return c;
}

TEST(MatmulWide, is_one_chain_of_fused_multiply_adds_on_every_instruction_set) {
  std::mt19937 generator(1);
  std::normal_distribution<double> normal;
  for (const Shape& s : kShapes) {
    std::vector<double> a(static_cast<std::size_t>(s.m * s.k));
    std::vector<float> b(static_cast<std::size_t>(s.k * s.n));
    for (double& x : a) x = normal(generator);
    for (float& x : b) x = static_cast<float>(normal(generator));
    const std::vector<double> want = chains(s, a, b);
    for (const Isa isa : supported_isas()) {
      std::vector<double> c(want.size(), NAN);
      matmul_wide(isa, s.m, s.k, s.n, a.data(), b.data(), c.data());
      EXPECT_EQ(c, want) << isa_name(isa) << " " << s.m << " " << s.k << " " << s.n;
      c.assign(want.size(), NAN);
      for (Index first = 0; first < s.n; first += 19) {
        matmul_wide_columns(isa, s.m, s.k, std::min<Index>(19, s.n - first), s.n, a.data(),
                            b.data() + first, c.data() + first);
      }
      EXPECT_EQ(c, want) << isa_name(isa) << " in columns " << s.m << " " << s.k << " " << s.n;
      const std::vector<double> wide_b(b.begin(), b.end());
      c.assign(want.size(), NAN);
      matmul_wide(isa, s.m, s.k, s.n, a.data(), wide_b.data(), c.data());
      EXPECT_EQ(c, want) << isa_name(isa) << " of doubles " << s.m << " " << s.k << " " << s.n;
      const std::vector<float> single_a(a.begin(), a.end());
      std::vector<float> single_c(want.size(), NAN);
      matmul_single(isa, s.m, s.k, s.n, single_a.data(), b.data(), single_c.data());
      EXPECT_EQ(single_c, chains(s, single_a, b)) << isa_name(isa) << " in float " << s.m;
    }
  }
}

}  // namespace
}  // namespace prenorm::kernels
