// Linear:  y = x W + b  with W [in, out], as GPT-2's Conv1D keeps it (the transpose of
// torch.nn.Linear's weight).
#pragma once
#include <utility>

#include "prenorm/kernels/matmul_bf16.h"
#include "prenorm/layers/layer.h"

namespace prenorm {

class Linear {
 public:
  struct Saved {};

  // Registers NAME.weight [in, out] and, with `bias`, NAME.bias [out].
  Linear(ParameterRegistry& parameters, std::string name, Index in, Index out, bool bias = true);

  Saved plan(Arena&, Index) const { return {}; }

  // x: [N, in], y: [N, out]. Overwrites y.
  void forward(const Runtime& run, ConstMatrix x, Matrix y, Saved&) const { forward(run, x, y); }
  // With a residual or an activation fused in; the bias is added here (`then.bias` is ignored).
  void forward(const Runtime& run, ConstMatrix x, Matrix y, kernels::Epilogue then = {}) const;

  // dy: [N, out], x, dx: [N, in]. Overwrites dx; adds to the parameters' gradients.
  void backward(const Runtime& run, ConstMatrix dy, ConstMatrix x, const Saved&, Matrix dx) {
    backward(run, dy, x, dx);
  }
  // With the gradient of an activation fused into dx; with `then.activated` x is that matrix, which
  // the product makes.
  void backward(const Runtime& run, ConstMatrix dy, ConstMatrix x, Matrix dx,
                const kernels::Epilogue& then = {});

  // Keeps a copy of the weight in the kernel's order, for many passes with weights that no longer
  // change. Call again after changing them.
  void pack(const Runtime& run, kernels::WeightFormat format = kernels::WeightFormat::kFloat32);

  // The same in bfloat16 (set_products()), of an x that was rounded already or to be.
  void forward(const Runtime& run, const kernels::Bf16Operand& x, Matrix y,
               kernels::Bf16Epilogue then) const;
  void backward(const Runtime& run, ConstMatrix dy, const kernels::Bf16Operand& x, Matrix dx,
                const kernels::Epilogue& then);

  // What the products of both passes are computed in from now on; sums, biases and gradients stay
  // in float32. In bfloat16 a packed weight is not used.
  void set_products(Products products) { products_ = products; }

 private:
  kernels::Right right(const Runtime& run) const;
  // Shapes of a pass; an empty dx is none.
  void check(Index x_rows, Index x_columns, ConstMatrix dx, ConstMatrix y,
             std::string_view y_name) const;

  std::string name_;
  Index in_, out_;
  Parameter& weight_;  // [in, out]
  Parameter* bias_;    // [out] or none
  kernels::PackedMatrix packed_;
  Products products_ = Products::kFloat32;
};

}  // namespace prenorm
