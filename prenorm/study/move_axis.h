// An axis of a tensor moved to the end, and back.
//
//   const AxisMove move({2, 5, 3}, 1);
//   move.to_last(x)      // [2, 5, 3] as rows [6, 5]
#pragma once
#include <span>

#include "prenorm/reference/tensor.h"

namespace prenorm {

class AxisMove {
 public:
  // Requires: 0 <= axis < shape.size().
  AxisMove(std::span<const Index> shape, Index axis) {
    for (std::size_t a = 0; a < shape.size(); ++a) {
      Index& part = a < static_cast<std::size_t>(axis)    ? before_
                    : a == static_cast<std::size_t>(axis) ? count_
                                                          : after_;
      part *= shape[a];
    }
  }

  // Rows [before · after, count] of the numbers of a tensor of the shape.
  template <typename S>
  reference::Tensor<S> to_last(const reference::Tensor<S>& x) const {
    reference::Tensor<S> out({before_ * after_, count_});
    each([&](Index flat, Index row, Index column) { out(row, column) = x[flat]; });
    return out;
  }
  // The numbers in the order of the shape, as one axis.
  template <typename S>
  reference::Tensor<S> from_last(const reference::Tensor<S>& rows) const {
    reference::Tensor<S> out({before_ * count_ * after_});
    each([&](Index flat, Index row, Index column) { out[flat] = rows(row, column); });
    return out;
  }

 private:
  template <typename Body>
  void each(const Body& body) const {
    for (Index b = 0; b < before_; ++b) {
      for (Index c = 0; c < count_; ++c) {
        for (Index a = 0; a < after_; ++a) {
          body((b * count_ + c) * after_ + a, b * after_ + a, c);
        }
      }
    }
  }

  Index before_ = 1, count_ = 1, after_ = 1;
};

}  // namespace prenorm
