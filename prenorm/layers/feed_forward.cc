#include "prenorm/layers/feed_forward.h"

namespace prenorm {

static_assert(Layer<FeedForward>);

FeedForward::FeedForward(ParameterRegistry& parameters, const std::string& name, Index width,
                         Index inner, Activation activation, bool bias)
    : activation_(activation),
      in_(parameters, name + ".c_fc", width, inner, bias),
      out_(parameters, name + ".c_proj", inner, width, bias),
      inner_(inner) {}

FeedForward::Saved FeedForward::plan(Arena& arena, Index rows) const {
  return {arena.matrix(rows, inner_), arena.matrix(rows, inner_), arena.matrix(rows, inner_)};
}

void FeedForward::forward(const Runtime& run, ConstMatrix x, Matrix y, Saved& saved,
                          ConstMatrix residual) const {
  kernels::Epilogue activate;
  activate.activated = saved.activated;
  activate.activation = activation_;
  in_.forward(run, x, saved.hidden, activate);
  kernels::Epilogue add;
  add.residual = residual;
  out_.forward(run, saved.activated, y, add);
}

// a = act(u), u = x W1 + b1:  du = (dy W2ᵀ) ∘ act'(u). The activation is computed again from u by
// the same function rather than kept: F floats a token less to hold.
void FeedForward::backward(const Runtime& run, ConstMatrix dy, ConstMatrix x, const Saved& saved,
                           Matrix dx) {
  kernels::activation_forward(run, activation_, saved.hidden, saved.activated);
  kernels::Epilogue derivative;
  derivative.activation_input = saved.hidden;
  derivative.activation = activation_;
  out_.backward(run, dy, saved.activated, saved.gradient, derivative);
  in_.backward(run, saved.gradient, x, dx);
}

void FeedForward::pack(const Runtime& run, kernels::WeightFormat format) {
  in_.pack(run, format);
  out_.pack(run, format);
}

void FeedForward::set_products(Products products) {
  in_.set_products(products);
  out_.set_products(products);
}

}  // namespace prenorm
