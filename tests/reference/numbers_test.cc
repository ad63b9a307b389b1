#include "prenorm/reference/numbers.h"

#include <gtest/gtest.h>

namespace prenorm::reference {
namespace {

struct Row {
  double x, half, bfloat;
};

// PyTorch's own conversions from float64.
const Row kRows[] = {
    {0.1, 0.0999755859375, 0.10009765625},
    {3.14159, 3.140625, 3.140625},
    {65519.9, 65504.0, 65536.0},
    {65520.0, HUGE_VAL, 65536.0},
    {1e-07, 1.1920928955078125e-07, 1.0011717677116394e-07},
    {6e-08, 5.960464477539063e-08, 6.007030606269836e-08},
    {2.9e-08, 0.0, 2.898741513490677e-08},
    {-2.0009765625, -2.0, -2.0},
    {-2049.0, -2048.0, -2048.0},
    {3.3e+38, HUGE_VAL, 3.2964854295465914e+38},
    {3.4e+38, HUGE_VAL, HUGE_VAL},
    {1e-40, 0.0, 9.183549615799121e-41},
};

TEST(Numbers, rounding_is_that_of_pytorch) {
  for (const Row& row : kRows) {
    EXPECT_EQ(round_to(row.x, Numbers::kFloat16), row.half) << row.x;
    EXPECT_EQ(round_to(row.x, Numbers::kBfloat16), row.bfloat) << row.x;
  }
}

TEST(Numbers, float32_is_the_conversion_of_the_language) {
  for (const double x : {0.1, -1e-42, 1e-46, 3.4e38, 16777217.0, 1.0 / 3.0}) {
    EXPECT_EQ(round_to(x, Numbers::kFloat32), static_cast<double>(static_cast<float>(x))) << x;
  }
}

TEST(Numbers, exact_and_non_finite_numbers_stay) {
  EXPECT_EQ(round_to(0.1, Numbers::kExact), 0.1);
  EXPECT_TRUE(std::isnan(round_to(std::nan(""), Numbers::kFloat16)));
  EXPECT_TRUE(std::signbit(round_to(-0.0, Numbers::kFloat16)));
}

TEST(Numbers, the_derivative_of_a_rounded_dual_is_kept) {
  const Dual<double> x = rounded(Dual<double>(0.1, 3.0), Numbers::kBfloat16);
  EXPECT_EQ(x.value, 0.10009765625);
  EXPECT_EQ(x.derivative, 3.0);
}

}  // namespace
}  // namespace prenorm::reference
