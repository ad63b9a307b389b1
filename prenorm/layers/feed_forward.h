// The feed-forward network:  y = act(x W1 + b1) W2 + b2.
#pragma once
#include "prenorm/layers/linear.h"

namespace prenorm {

class FeedForward {
 public:
  struct Saved {
    Matrix hidden;     // [N, F]: x W1 + b1
    Matrix activated;  // [N, F]: scratch of both passes; layers of a stack may share it
    // With products in bfloat16, in its place and kept: the activated numbers, rounded.
    kernels::Bf16Rows rounded = {};
    Matrix gradient;  // [N, F]: scratch of backward(); may be shared likewise
  };

  // Registers NAME.c_fc and NAME.c_proj. Widths: C in and out, F inside.
  FeedForward(ParameterRegistry& parameters, const std::string& name, Index width, Index inner,
              Activation activation, bool bias = true);

  Saved plan(Arena& arena, Index rows) const;
  // The part of it that depends on the products: one of both, the other without data. A layer of a
  // stack may be given its `activated`.
  Matrix plan_activated(Arena& arena, Index rows) const;
  kernels::Bf16Rows plan_rounded(Arena& arena, Index rows) const;

  // x, y: [N, C]. Overwrites y.
  void forward(const Runtime& run, ConstMatrix x, Matrix y, Saved& saved) const {
    forward(run, x, y, saved, ConstMatrix());
  }
  // y = residual + the output; y overlaps no operand.
  void forward(const Runtime& run, ConstMatrix x, Matrix y, Saved& saved,
               ConstMatrix residual) const;

  // dy, x, dx: [N, C]; dx may alias x, which is read first. Overwrites dx; adds to the parameters'
  // gradients.
  void backward(const Runtime& run, ConstMatrix dy, ConstMatrix x, const Saved& saved, Matrix dx);

  void pack(const Runtime& run, kernels::WeightFormat format = kernels::WeightFormat::kFloat32);
  void set_products(Products products);

 private:
  Activation activation_;
  Linear in_;   // [C, F]
  Linear out_;  // [F, C]
  Index inner_;
  Products products_ = Products::kFloat32;
};

}  // namespace prenorm
