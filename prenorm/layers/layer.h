// What a layer is: a concrete class with a forward/backward pair over rows of features.
//
//   Saved plan(Arena&, Index rows)           memory that forward() leaves for backward()
//   forward(run, x, y, saved) const          overwrites y and saved
//   backward(run, dy, x, saved, dx)          overwrites dx, adds to parameter gradients
//
// x is the forward pass's input. Attention, embedding and the loss need more than rows and have
// pairs of their own. Boundaries check shapes and throw ShapeError.
#pragma once
#include <concepts>
#include <string>
#include <string_view>

#include "prenorm/base/error.h"
#include "prenorm/kernels/runtime.h"
#include "prenorm/tensor/arena.h"
#include "prenorm/tensor/parameter.h"
#include "prenorm/tensor/view.h"

namespace prenorm {

template <typename L>
concept Layer = requires(L& layer, const L& frozen, const Runtime& run, Arena& arena, Index rows,
                         ConstMatrix in, Matrix out, typename L::Saved& saved) {
  { frozen.plan(arena, rows) } -> std::same_as<typename L::Saved>;
  { frozen.forward(run, in, out, saved) } -> std::same_as<void>;
  { layer.backward(run, in, in, std::as_const(saved), out) } -> std::same_as<void>;
};

// Throws ShapeError unless x is [rows, columns]; rows < 0 means any.
//   LayerNorm 'h.0.ln_1': x: expected [12, 16], found [12, 8]
void check_shape(std::string_view layer, std::string_view name, std::string_view tensor,
                 ConstMatrix x, Index rows, Index columns);

}  // namespace prenorm
