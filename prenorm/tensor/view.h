// A non-owning, row-major window on memory. The last axis always has stride 1, so a kernel may
// vectorise over it without asking. Copy freely; the storage must outlive the view.
#pragma once
#include <array>
#include <cstddef>
#include <type_traits>

#include "prenorm/base/index.h"

namespace prenorm {

template <typename T, int Rank>
class View {
 public:
  using Shape = std::array<Index, Rank>;

  constexpr View() = default;
  constexpr View(T* data, const Shape& shape) : data_(data), shape_(shape) {
    Index step = 1;
    for (int axis = Rank - 1; axis >= 0; --axis) {
      strides_[at(axis)] = step;
      step *= shape_[at(axis)];
    }
  }
  constexpr View(T* data, const Shape& shape, const Shape& strides)
      : data_(data), shape_(shape), strides_(strides) {}

  // A writable view is also a readable one.
  constexpr operator View<const T, Rank>() const  // NOLINT: implicit on purpose
      requires(!std::is_const_v<T>) {
    return View<const T, Rank>(data_, shape_, strides_);
  }

  constexpr Index dim(int axis) const { return shape_[at(axis)]; }
  constexpr Index stride(int axis) const { return strides_[at(axis)]; }
  constexpr const Shape& shape() const { return shape_; }
  constexpr T* data() const { return data_; }
  constexpr explicit operator bool() const { return data_ != nullptr; }
  constexpr Index size() const {
    Index n = 1;
    for (Index d : shape_) n *= d;
    return n;
  }
  constexpr bool contiguous() const {
    Index step = 1;
    for (int axis = Rank - 1; axis >= 0; --axis) {
      if (strides_[at(axis)] != step) return false;
      step *= shape_[at(axis)];
    }
    return true;
  }

  // The sub-view at index i of the first axis: x[b] is [T, C] when x is [B, T, C].
  constexpr decltype(auto) operator[](Index i) const {
    if constexpr (Rank == 1) {
      return static_cast<std::add_lvalue_reference_t<T>>(data_[i * strides_[0]]);
    } else {
      std::array<Index, Rank - 1> shape{}, strides{};
      for (int a = 1; a < Rank; ++a) {
        shape[at(a - 1)] = shape_[at(a)];
        strides[at(a - 1)] = strides_[at(a)];
      }
      return View<T, Rank - 1>(data_ + i * strides_[0], shape, strides);
    }
  }

  // Rows [begin, begin + count) of the first axis.
  constexpr View rows(Index begin, Index count) const {
    Shape shape = shape_;
    shape[0] = count;
    return View(data_ + begin * strides_[0], shape, strides_);
  }
  // Columns [begin, begin + count) of the last axis.
  constexpr View columns(Index begin, Index count) const requires(Rank >= 2) {
    Shape shape = shape_;
    shape[Rank - 1] = count;
    return View(data_ + begin, shape, strides_);
  }

 private:
  static constexpr std::size_t at(int axis) { return static_cast<std::size_t>(axis); }

  T* data_ = nullptr;
  Shape shape_{};
  Shape strides_{};
};

using Vector = View<float, 1>;
using Matrix = View<float, 2>;
using ConstVector = View<const float, 1>;
using ConstMatrix = View<const float, 2>;
using DoubleVector = View<double, 1>;
using ConstDoubleVector = View<const double, 1>;
using TokenMatrix = View<const TokenId, 2>;  // [B, T]

}  // namespace prenorm
