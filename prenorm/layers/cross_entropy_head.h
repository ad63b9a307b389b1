// The vocabulary projection together with its loss, over chunks of tokens, so that the logits of a
// whole batch [B·T, V] are never in memory:
//
//   z_n = x_n Wᵀ,   loss_n = log Σ_v exp z_nv − z_n,target      W [V, C], no bias
#pragma once
#include "prenorm/kernels/matmul_bf16.h"
#include "prenorm/layers/layer.h"

namespace prenorm {

// Σ loss over the targets that count, and how many they were.
struct LossSum {
  double loss = 0.0;
  Index count = 0;

  double mean() const { return loss / static_cast<double>(count); }
  LossSum& operator+=(const LossSum& other) {
    loss += other.loss;
    count += other.count;
    return *this;
  }
};

class CrossEntropyHead {
 public:
  struct Scratch {
    Matrix logits;        // [chunk, V]
    DoubleVector losses;  // [chunk]
    // With products in bfloat16: the weight as the right operand of the logits and of dx.
    kernels::Bf16Panels panels = {}, dx_panels = {};
  };

  // The weight [V, C] is registered elsewhere: NAME.weight, or wte's where tied.
  explicit CrossEntropyHead(Parameter& weight) : weight_(weight) {}

  // Memory of any of the calls below on up to `rows` rows, with the products as they are set.
  Scratch plan(Arena& arena, Index rows) const;

  // x: [N, C], targets: [N] in [0, V) or −1 (ignored). Throws ShapeError.
  LossSum forward(const Runtime& run, ConstMatrix x, View<const TokenId, 1> targets,
                  const Scratch& scratch) const;

  // The same, with dx = scale · d(Σ loss)/dx and scale · d(Σ loss)/dW added to the weight's
  // gradient. dx may not alias x. The loss is added to `before`, that of the rows before these:
  // rows that are cut after whole chunks have the bits of all in one call.
  LossSum forward_backward(const Runtime& run, ConstMatrix x, View<const TokenId, 1> targets,
                           double scale, Matrix dx, const Scratch& scratch, LossSum before = {});

  // logits: [N, V]. Overwrites logits.
  void logits(const Runtime& run, ConstMatrix x, Matrix logits) const;

  void pack(const Runtime& run, kernels::WeightFormat format = kernels::WeightFormat::kFloat32);

  // What the products of all passes are computed in from now on. Call before plan().
  void set_products(Products products) { products_ = products; }

 private:
  void check(ConstMatrix x, View<const TokenId, 1> targets) const;
  LossSum sum(View<const TokenId, 1> targets, const Scratch& scratch) const;
  void pack_panels(const Runtime& run, const Scratch& scratch, bool backward) const;
  void multiply(const Runtime& run, ConstMatrix x, Matrix logits, const Scratch& scratch) const;
  void multiply_backward(const Runtime& run, ConstMatrix dlogits, ConstMatrix x, Matrix dx,
                         const Scratch& scratch);

  Parameter& weight_;  // [V, C]
  kernels::PackedMatrix packed_;
  Products products_ = Products::kFloat32;
};

}  // namespace prenorm
