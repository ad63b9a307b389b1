// The textbook's container: numbers of any scalar type with a shape, row-major. Layers read it as
// rows of features: the last axis is the features, all axes before it together are the rows, so one
// function serves [N, C], [T, C] and [B, T, C].
//
//   Tensor<double> x({2, 3, 4});              // zeros, [B, T, C]
//   x.rows() == 6; x.columns() == 4; x(5, 3)  // the last feature of the last token
#pragma once
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "prenorm/base/error.h"
#include "prenorm/base/index.h"
#include "prenorm/reference/dual.h"
#include "prenorm/tensor/view.h"

namespace prenorm::reference {

inline std::string shape_text(const std::vector<Index>& shape) {
  std::string text = "[";
  for (const Index d : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(d);
  return text + "]";
}

template <typename S>
class Tensor {
 public:
  Tensor() = default;  // empty: "not there", as a bias that a layer does not have
  explicit Tensor(std::vector<Index> shape)
      : shape_(std::move(shape)), values_(at(count(shape_))) {}
  // Throws ShapeError unless the shape holds exactly these values.
  Tensor(std::vector<Index> shape, std::vector<S> values)
      : shape_(std::move(shape)), values_(std::move(values)) {
    if (at(count(shape_)) != values_.size()) {
      throw ShapeError("Tensor: expected " + std::to_string(count(shape_)) + " values for " +
                       shape_text(shape_) + ", found " + std::to_string(values_.size()));
    }
  }
  static Tensor filled(std::vector<Index> shape, const S& value) {
    Tensor out(std::move(shape));
    for (S& element : out.values_) element = value;
    return out;
  }

  const std::vector<Index>& shape() const { return shape_; }
  Index rank() const { return static_cast<Index>(shape_.size()); }
  Index dim(Index axis) const { return shape_[at(axis)]; }
  Index size() const { return static_cast<Index>(values_.size()); }
  bool absent() const { return shape_.empty(); }
  Index columns() const { return shape_.empty() ? 0 : shape_.back(); }
  Index rows() const {
    Index n = 1;
    for (std::size_t axis = 0; axis + 1 < shape_.size(); ++axis) n *= shape_[axis];
    return n;
  }

  S& operator[](Index i) { return values_[at(i)]; }
  const S& operator[](Index i) const { return values_[at(i)]; }
  S& operator()(Index row, Index column) { return values_[at(row * columns() + column)]; }
  const S& operator()(Index row, Index column) const {
    return values_[at(row * columns() + column)];
  }
  // The features of one row, for loops that run over them.
  S* row(Index n) { return values_.data() + n * columns(); }
  const S* row(Index n) const { return values_.data() + n * columns(); }
  auto begin() { return values_.begin(); }
  auto end() { return values_.end(); }
  auto begin() const { return values_.begin(); }
  auto end() const { return values_.end(); }
  const std::vector<S>& values() const { return values_; }

  // The same values under another shape. Throws ShapeError if they do not fit.
  Tensor reshaped(std::vector<Index> shape) const& { return Tensor(std::move(shape), values_); }
  Tensor reshaped(std::vector<Index> shape) && {
    return Tensor(std::move(shape), std::move(values_));
  }

  friend bool operator==(const Tensor&, const Tensor&) = default;

 private:
  static std::size_t at(Index i) { return static_cast<std::size_t>(i); }
  static Index count(const std::vector<Index>& shape) {
    Index n = 1;
    for (const Index d : shape) n *= d;
    return n;
  }

  std::vector<Index> shape_;
  std::vector<S> values_;
};

// The scalar type of a tensor's numbers, once more, in another type.
template <typename To, typename From>
Tensor<To> cast(const Tensor<From>& x) {
  if (x.absent()) return {};
  Tensor<To> out(x.shape());
  for (Index i = 0; i < x.size(); ++i) out[i] = static_cast<To>(x[i]);
  return out;
}

// A copy of a kernel's view in the textbook's container.
template <typename To = double, typename From, int Rank>
Tensor<To> to_tensor(View<From, Rank> view) {
  if (!view) return {};
  Tensor<To> out(std::vector<Index>(view.shape().begin(), view.shape().end()));
  if constexpr (Rank == 1) {
    for (Index i = 0; i < view.dim(0); ++i) out[i] = static_cast<To>(view[i]);
  } else {
    const Index stride = out.size() == 0 ? 0 : out.size() / view.dim(0);
    for (Index row = 0; row < view.dim(0) && stride > 0; ++row) {
      const Tensor<To> part = to_tensor<To>(view[row]);
      for (Index i = 0; i < stride; ++i) out[row * stride + i] = part[i];
    }
  }
  return out;
}

// Zeros of the same shape; absent where x is absent: a gradient before anything is added to it.
template <typename S>
Tensor<S> zeros_like(const Tensor<S>& x) {
  return x.absent() ? Tensor<S>() : Tensor<S>(x.shape());
}

// x + y, element by element: the residual connection.
template <typename S>
Tensor<S> add(const Tensor<S>& x, const Tensor<S>& y) {
  Tensor<S> out = x;
  for (Index i = 0; i < x.size(); ++i) out[i] = x[i] + y[i];
  return out;
}

// The shape of x with another number of features.
template <typename S>
std::vector<Index> with_columns(const Tensor<S>& x, Index columns) {
  std::vector<Index> shape = x.shape();
  shape.back() = columns;
  return shape;
}

// Throws ShapeError `LAYER: TENSOR: expected [..], found [..]`.
inline void check_shape(std::string_view what, const std::vector<Index>& found,
                        const std::vector<Index>& expected) {
  if (found == expected) return;
  throw ShapeError(std::string(what) + ": expected " + shape_text(expected) + ", found " +
                   shape_text(found));
}

// Batch and time of activations [B, T, C]; [T, C] is a batch of one.
struct Extents {
  Index batch = 1, time = 0;
};
template <typename S>
Extents extents_of(std::string_view what, const Tensor<S>& x) {
  if (x.rank() == 2) return {1, x.dim(0)};
  if (x.rank() == 3) return {x.dim(0), x.dim(1)};
  throw ShapeError(std::string(what) + ": input: expected [B, T, C] or [T, C], found " +
                   shape_text(x.shape()));
}

// What a backward pass returns: the gradient of the input, and of the parameters in their own type.
template <typename S, typename Parameters>
struct Gradients {
  Tensor<S> dx;
  Parameters dparameters;
};

}  // namespace prenorm::reference
