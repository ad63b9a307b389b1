// The float memory of a pass through the kernels, filled from doubles and read back into them.
#pragma once
#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "prenorm/kernels/attention.h"
#include "prenorm/model/parameter_layout.h"
#include "prenorm/reference/attention_mask.h"
#include "prenorm/tensor/arena.h"
#include "prenorm/tensor/buffer.h"
#include "prenorm/tensor/parameter.h"

namespace prenorm {

// The first columns of the matrix's rows, under another shape of as many rows.
inline reference::Tensor<double> values_of(ConstMatrix m, std::vector<Index> shape) {
  reference::Tensor<double> out(std::move(shape));
  for (Index r = 0; r < out.rows(); ++r) {
    std::copy_n(m[r].data(), out.columns(), out.row(r));
  }
  return out;
}

// Each row into the first columns of the matrix's; numbers that are not floats are rounded.
inline void copy_values(const reference::Tensor<double>& from, Matrix to) {
  for (Index r = 0; r < from.rows(); ++r) {
    std::transform(from.row(r), from.row(r) + from.columns(), to[r].data(),
                   [](double x) { return static_cast<float>(x); });
  }
}

// An owned matrix.
class FloatMatrix {
 public:
  FloatMatrix() = default;
  FloatMatrix(Index rows, Index columns)
      : rows_(rows), columns_(columns), data_(static_cast<std::size_t>(rows * columns)) {}
  // All axes but the last are rows. With `columns`, more than there are: zeros after them.
  explicit FloatMatrix(const reference::Tensor<double>& values, Index columns = 0)
      : FloatMatrix(values.rows(), std::max(columns, values.columns())) {
    copy_values(values, view());
  }

  Index rows() const { return rows_; }
  Index columns() const { return columns_; }
  Matrix view() { return {data_.data(), {rows_, columns_}}; }
  ConstMatrix view() const { return {data_.data(), {rows_, columns_}}; }
  reference::Tensor<double> values(std::vector<Index> shape) const {
    return values_of(view(), std::move(shape));
  }

 private:
  Index rows_ = 0, columns_ = 0;
  std::vector<float> data_;
};

// The textbook's masks as the kernels read them.
class FloatMask {
 public:
  // mask.added: absent or [B, H, T, S], where B and H may be 1; key_padding: absent or [B, S].
  FloatMask(const reference::AttentionMask& mask, const View<const float, 4>::Shape& shape)
      : padding_(mask.key_padding.values()), batch_(shape[0]), keys_(shape[3]) {
    if (mask.added.absent()) return;
    added_ = FloatMatrix(mask.added);
    const Index matrix = shape[2] * shape[3], of_heads = mask.added.dim(1);
    const Index by_head = of_heads == 1 ? 0 : matrix;
    const Index by_batch = mask.added.dim(0) == 1 ? 0 : of_heads * matrix;
    view_ = View<const float, 4>(std::as_const(added_).view().data(), shape,
                                 {by_batch, by_head, shape[3], 1});
  }
  FloatMask(const FloatMask&) = delete;
  FloatMask& operator=(const FloatMask&) = delete;

  kernels::AttentionMask view() const {
    kernels::AttentionMask mask;
    mask.added = view_;
    if (!padding_.empty()) mask.key_blocked = {padding_.data(), {batch_, keys_}};
    return mask;
  }

 private:
  FloatMatrix added_;
  std::vector<unsigned char> padding_;
  Index batch_, keys_;
  View<const float, 4> view_;
};

// What plan(arena) describes, in memory of its own.
template <typename Views>
struct Placed {
  Buffer memory;
  Views views;
};
template <typename Plan>
auto place(const Plan& plan) {
  Arena measure;
  plan(measure);
  Placed<decltype(plan(measure))> placed{Buffer(std::max<std::size_t>(1, measure.used())), {}};
  Arena arena(placed.memory.bytes());
  placed.views = plan(arena);
  return placed;
}

// "h.0.ln_1.weight", "ln.weight"
inline bool is_norm_weight(std::string_view name) {
  constexpr std::string_view kWeight = ".weight";
  if (!name.ends_with(kWeight)) return false;
  name.remove_suffix(kWeight.size());
  return name.substr(name.rfind('.') + 1).starts_with("ln");
}

// Memory for values and gradients, and the values by name; where one is missing, a norm's weight is
// 1 and everything else 0.
inline void fill_parameters(ParameterRegistry& parameters, const ParameterValues& values) {
  parameters.allocate(true);
  for (Parameter& p : parameters) {
    const auto it = values.find(p.name);
    if (it != values.end()) {
      if (it->second.size() != p.size()) {
        throw ShapeError(p.name + ": expected " + shape_text(p.shape) + ", found " +
                         shape_text(it->second.shape()));
      }
      std::transform(it->second.begin(), it->second.end(), p.value.begin(),
                     [](double x) { return static_cast<float>(x); });
    } else if (is_norm_weight(p.name)) {
      std::ranges::fill(p.value, 1.0f);
    }
  }
}

// The gradients of those parameters that have values in `like`.
inline ParameterValues gradients_of(const ParameterRegistry& parameters,
                                    const ParameterValues& like) {
  ParameterValues out;
  for (const Parameter& p : parameters) {
    if (!like.contains(p.name)) continue;
    out[p.name] = reference::Tensor<double>(p.shape, {p.grad.begin(), p.grad.end()});
  }
  return out;
}

}  // namespace prenorm
