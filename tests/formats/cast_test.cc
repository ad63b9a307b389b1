#include "prenorm/formats/cast.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace prenorm {
namespace {

using testing::ElementsAre;

std::vector<double> cast(const std::vector<double>& values, Dtype dtype) {
  const Tensor out =
      cast_tensor(tensor("x", {static_cast<Index>(values.size())}, std::span(values)), dtype);
  EXPECT_EQ(out.dtype, dtype);
  EXPECT_EQ(out.name, "x");
  std::vector<double> back(values.size());
  doubles_from(dtype, out.bytes, back);
  return back;
}

TEST(CastTensor, ties_go_to_the_even_neighbour) {
  EXPECT_THAT(cast({1 + 0x1p-11, 1 + 0x3p-11, -1 - 0x1p-11}, Dtype::kF16),
              ElementsAre(1, 1 + 0x1p-9, -1));
  EXPECT_THAT(cast({1 + 0x1p-8, 1 + 0x3p-8}, Dtype::kBF16), ElementsAre(1, 1 + 0x1p-6));
  EXPECT_THAT(cast({1 + 0x1p-24, 1 + 0x3p-24}, Dtype::kF32), ElementsAre(1, 1 + 0x1p-22));
}

TEST(CastTensor, a_double_is_rounded_once_and_not_over_a_float) {
  // In float32 these are the ties of the test above; in double they lie beyond and below them.
  EXPECT_THAT(cast({1 + 0x1p-11 + 0x1p-40, 1 + 0x3p-11 - 0x1p-40}, Dtype::kF16),
              ElementsAre(1 + 0x1p-10, 1 + 0x1p-10));
  EXPECT_THAT(cast({1 + 0x1p-8 + 0x1p-40, -1 - 0x1p-8 - 0x1p-40}, Dtype::kBF16),
              ElementsAre(1 + 0x1p-7, -1 - 0x1p-7));
}

TEST(CastTensor, overflow_is_infinite_and_nan_stays_nan) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_THAT(cast({1e300, -1e300, infinity}, Dtype::kBF16),
              ElementsAre(infinity, -infinity, infinity));
  EXPECT_THAT(cast({65519.0, 65520.0}, Dtype::kF16), ElementsAre(65504.0, infinity));
  EXPECT_TRUE(std::isnan(cast({std::nan("")}, Dtype::kF16)[0]));
  EXPECT_THAT(cast({0.0, 1e-300}, Dtype::kF32), ElementsAre(0.0, 0.0));
}

TEST(CastTensor, what_became_infinite_is_counted) {
  const std::vector<double> values = {1e5, -1e5, 1.0, std::nan(""),
                                      -std::numeric_limits<double>::infinity()};
  const Tensor t = tensor("x", {5}, std::span(values));
  EXPECT_EQ(count_infinite(t), 1);
  EXPECT_EQ(count_infinite(cast_tensor(t, Dtype::kBF16)), 1);
  EXPECT_EQ(count_infinite(cast_tensor(t, Dtype::kF16)), 3);
}

TEST(CastTensor, the_same_type_keeps_the_bytes) {
  const std::vector<float> values = {1, 2};
  const Tensor t = tensor("x", {2}, std::span(values));
  EXPECT_EQ(cast_tensor(t, Dtype::kF32).bytes.data(), t.bytes.data());
}

}  // namespace
}  // namespace prenorm
