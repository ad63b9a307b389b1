// Layers with the parameters of a case, under PyTorch's names and in its [out, in] layouts.
//
//   BlockOfCase block({.width = 4, .heads = 2, .inner = 8});
//   block.parameters().load(c.input.at("params"));
//   const Array y = block.forward(run, x);            // [B, T, C] or [T, C]
//   const Array dx = block.backward(run, dy);
//   block.parameters().gradient("linear1.weight");    // [F, C]
#pragma once
#include <string>
#include <vector>

#include "prenorm/layers/multihead_attention.h"
#include "prenorm/layers/transformer_block.h"
#include "tests/cases/values.h"

namespace prenorm::cases {

// A registry of one layer, whose parameters are called NAME.*.
class TorchParameters {
 public:
  // Each name of PyTorch with our own of the same tensor.
  struct Pair {
    std::string torch, own;
  };
  TorchParameters(ParameterRegistry& registry, std::vector<Pair> names)
      : registry_(registry), names_(std::move(names)) {}

  // One tensor, [out, in] if it is a matrix. Throws BadCase for an unknown name or another shape.
  void set(const std::string& torch, const Array& values);
  // All of an object of tensors. Throws BadCase where one is missing or unknown.
  void load(const Json& object);
  Array gradient(const std::string& torch) const;
  // Names of the tensors that this layer has.
  std::vector<std::string> names() const;
  bool knows(const std::string& torch) const { return find(torch) != nullptr; }

 private:
  const Parameter* find(const std::string& torch) const;

  ParameterRegistry& registry_;
  std::vector<Pair> names_;
};

class BlockOfCase {
 public:
  explicit BlockOfCase(const TransformerBlock::Options& options);
  TorchParameters& parameters() { return parameters_; }
  Array forward(const Runtime& run, const Array& x);
  Array backward(const Runtime& run, const Array& dy);  // after forward()

 private:
  ParameterRegistry registry_;
  TransformerBlock block_;
  TorchParameters parameters_;
  Buffer memory_;
  Floats x_;
  Index batch_ = 0, time_ = 0;
  TransformerBlock::Saved saved_;
};

class AttentionOfCase {
 public:
  AttentionOfCase(Index width, Index heads, bool bias, bool causal = true);
  TorchParameters& parameters() { return parameters_; }
  Array forward(const Runtime& run, const Array& x, const kernels::AttentionMask& mask = {});
  Array backward(const Runtime& run, const Array& dy);  // after forward()

 private:
  ParameterRegistry registry_;
  MultiheadAttention attention_;
  TorchParameters parameters_;
  Buffer memory_;
  Floats x_;
  Index batch_ = 0, time_ = 0;
  kernels::AttentionMask mask_;
  MultiheadAttention::Saved saved_;
};

}  // namespace prenorm::cases
