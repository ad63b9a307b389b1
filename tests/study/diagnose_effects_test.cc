#include "prenorm/study/diagnose_effects.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace prenorm {
namespace {

Values random_effect(unsigned seed, Index rows = 4, Index columns = 300) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal;
  Values out({rows, columns});
  for (double& x : out) x = normal(generator);
  return out;
}

// a · part_a + b · part_b
Values sum_of_two(const Values& a, double part_a, const Values& b, double part_b) {
  Values out(a.shape());
  for (Index i = 0; i < out.size(); ++i) out[i] = part_a * a[i] + part_b * b[i];
  return out;
}

TEST(DiagnoseEffects, the_pair_that_the_target_is_made_of_leaves_nothing) {
  constexpr unsigned kCount = 6;
  std::vector<Values> alone;
  for (unsigned i = 0; i < kCount; ++i) alone.push_back(random_effect(i + 1));
  DiagnoseEffects effects(sum_of_two(alone[2], 0.7, alone[4], 1.1));
  for (const Values& effect : alone) effects.add(effect);
  for (std::size_t a = 0; a < kCount; ++a) {
    for (std::size_t b = 0; b < kCount; ++b) {
      if (a == b) continue;
      const bool both = a + b == 6 && (a == 2 || b == 2);
      const double left = effects.left(a, b);
      EXPECT_EQ(left, effects.left(b, a));
      if (both) {
        EXPECT_NEAR(left, 0.0, 1e-12);
      } else {
        EXPECT_GT(left, 0.2) << a << " " << b;
      }
    }
  }
}

// The least over a grid of all parts that may be taken.
double least_on_grid(const Values& target, const Values& a, const Values& b) {
  double least = std::numeric_limits<double>::infinity(), square = 0.0;
  for (const double x : target) square += x * x;
  for (int i = 10; i <= 130; i += 2) {
    for (int k = 10; k <= 130; k += 2) {
      double left = 0.0;
      for (Index n = 0; n < target.size(); ++n) {
        const double d = target[n] - 0.01 * i * a[n] - 0.01 * k * b[n];
        left += d * d;
      }
      least = std::min(least, left / square);
    }
  }
  return least;
}

TEST(DiagnoseEffects, each_is_taken_once_at_most_or_hardly_more_and_never_the_other_way) {
  const Values a = random_effect(1, 3, 20), b = random_effect(2, 3, 20),
               c = random_effect(3, 3, 20);
  for (const auto& [x, y] : {std::pair{3.0, 0.5}, {-1.0, 0.5}, {0.02, 2.0}, {-2.0, -3.0}}) {
    const Values target = sum_of_two(sum_of_two(a, x, b, y), 1.0, c, 0.3);
    DiagnoseEffects effects(target);
    effects.add(a);
    effects.add(b);
    EXPECT_NEAR(effects.left(0, 1), least_on_grid(target, a, b), 1e-3) << x << " " << y;
  }
}

TEST(DiagnoseEffects, what_moves_nothing_or_is_no_number_explains_nothing) {
  const Values a = random_effect(1);
  DiagnoseEffects effects(a);
  effects.add(a);
  effects.add(Values(a.shape()));
  Values wrong = random_effect(2);
  wrong[0] = std::nan("");
  effects.add(wrong);
  EXPECT_EQ(effects.left(0, 1), std::numeric_limits<double>::infinity());
  EXPECT_EQ(effects.left(2, 0), std::numeric_limits<double>::infinity());
}

}  // namespace
}  // namespace prenorm
