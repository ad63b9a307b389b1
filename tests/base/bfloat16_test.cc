#include "prenorm/base/bfloat16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace prenorm {
namespace {

TEST(Bfloat16, rounds_to_nearest_with_ties_to_even) {
  EXPECT_EQ(float_from_bf16(bf16_from_float(1.00390625f)), 1.0f);       // 1 + half a unit: down
  EXPECT_EQ(float_from_bf16(bf16_from_float(1.01171875f)), 1.015625f);  // to the even neighbour
  EXPECT_EQ(float_from_bf16(bf16_from_float(std::nextafter(1.00390625f, 2.0f))), 1.0078125f);
  EXPECT_EQ(float_from_bf16(bf16_from_float(std::numeric_limits<float>::max())),
            std::numeric_limits<float>::infinity());
}

TEST(Bfloat16, keeps_a_nan_whose_upper_half_is_empty) {
  const float nan = std::bit_cast<float>(0x7F800001u);
  EXPECT_TRUE(std::isnan(float_from_bf16(bf16_from_float(nan))));
}

}  // namespace
}  // namespace prenorm
