// Multi-head self-attention with packed heads, causal as GPT-2's or not:
//
//   q, k, v = split(x W_attn + b_attn);  y = concat_h(softmax(q_h k_hᵀ / sqrt(D)) v_h) W_proj +
//   b_proj
#pragma once
#include <optional>

#include "prenorm/kernels/attention.h"
#include "prenorm/layers/linear.h"

namespace prenorm {

class MultiheadAttention {
 public:
  struct Saved {
    Matrix qkv;            // [N, 3C]
    Matrix attended;       // [N, C]: the heads' outputs, before the projection
    Vector row_max;        // [B H T]: of the softmax, with
    DoubleVector row_sum;  // [B H T]
    Matrix gradient;       // [N, 3C]: scratch of backward(); layers of a stack may share it
    Matrix dattended;      // [N, C]: likewise
  };

  // Registers NAME.c_attn [C, 3C] and NAME.c_proj [C, C]. `scale` multiplies the scores: 1 /
  // sqrt(D) unless given. Throws ConfigError unless heads divides width.
  MultiheadAttention(ParameterRegistry& parameters, const std::string& name, Index width,
                     Index heads, bool bias = true, bool causal = true,
                     std::optional<double> scale = {});

  // Memory of a pass over [batch, time] tokens.
  Saved plan(Arena& arena, Index batch, Index time) const;

  // x, y: [B·T, C]; y = residual + the output (residual empty: 0). y overlaps no operand. A query
  // that the mask leaves no key attends to nothing. Throws ShapeError.
  void forward(const Runtime& run, Index batch, Index time, ConstMatrix x, Matrix y, Saved& saved,
               ConstMatrix residual, const kernels::AttentionDropout& dropout,
               const kernels::AttentionMask& mask = {}) const;

  // dy, x, dx: [B·T, C]; dx may alias x, which is read first. Overwrites dx; adds to the
  // parameters' gradients. The mask is the forward pass's.
  void backward(const Runtime& run, Index batch, Index time, ConstMatrix dy, ConstMatrix x,
                const Saved& saved, Matrix dx, const kernels::AttentionDropout& dropout,
                const kernels::AttentionMask& mask = {});

  // The next `time` tokens of each sequence, at positions past, past + 1, …; the cache holds those
  // before. qkv [B·T, 3C] and attended [B·T, C] are scratch.
  void forward_cached(const Runtime& run, Index batch, Index time, Index past, ConstMatrix x,
                      Matrix y, ConstMatrix residual, kernels::KvCache& cache, Matrix qkv,
                      Matrix attended) const;

  void pack(const Runtime& run, kernels::WeightFormat format = kernels::WeightFormat::kFloat32);
  void set_products(Products products);
  Index heads() const { return heads_; }
  Index head_width() const { return width_ / heads_; }

 private:
  kernels::AttentionShape shape(Index batch, Index time) const;
  void check_mask(Index batch, Index time, const kernels::AttentionMask& mask) const;

  std::string name_;
  Index width_, heads_;
  bool causal_;
  double scale_;
  Linear in_;   // [C, 3C]
  Linear out_;  // [C, C]
};

}  // namespace prenorm
