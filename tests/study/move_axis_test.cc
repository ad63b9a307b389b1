#include "prenorm/study/move_axis.h"

#include <gtest/gtest.h>

namespace prenorm {
namespace {

TEST(MoveAxis, an_axis_goes_to_the_end_and_back) {
  const std::vector<Index> shape{2, 3, 4};
  reference::Tensor<double> x(shape);
  for (Index i = 0; i < x.size(); ++i) x[i] = static_cast<double>(i);
  for (Index axis = 0; axis < 3; ++axis) {
    const AxisMove move(shape, axis);
    const auto rows = move.to_last(x);
    EXPECT_EQ(rows.columns(), x.dim(axis));
    EXPECT_EQ(move.from_last(rows).values(), x.values());
  }
  // Element (b, c, a) of [2, 3, 4] is 12 b + 4 c + a; its row is (b, a).
  EXPECT_EQ(AxisMove(shape, 1).to_last(x)(4 + 2, 1), 12.0 + 4.0 + 2.0);
  EXPECT_EQ(AxisMove(shape, 0).to_last(x)(7, 1), 12.0 + 7.0);
}

TEST(MoveAxis, of_nothing_is_nothing) {
  const AxisMove move(std::vector<Index>{2, 0, 4}, 0);
  EXPECT_EQ(move.to_last(reference::Tensor<double>({2, 0, 4})).shape(), (std::vector<Index>{0, 2}));
}

}  // namespace
}  // namespace prenorm
