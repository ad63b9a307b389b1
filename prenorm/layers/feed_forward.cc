#include "prenorm/layers/feed_forward.h"

namespace prenorm {

static_assert(Layer<FeedForward>);

namespace {

kernels::Bf16Operand rounded(const FeedForward::Saved& saved) {
  return {{}, kernels::Bf16Role::kValue, saved.rounded};
}

}  // namespace

FeedForward::FeedForward(ParameterRegistry& parameters, const std::string& name, Index width,
                         Index inner, Activation activation, bool bias)
    : activation_(activation),
      in_(parameters, name + ".c_fc", width, inner, bias),
      out_(parameters, name + ".c_proj", inner, width, bias),
      inner_(inner) {}

Matrix FeedForward::plan_activated(Arena& arena, Index rows) const {
  return products_ == Products::kFloat32 ? arena.matrix(rows, inner_) : Matrix();
}

kernels::Bf16Rows FeedForward::plan_rounded(Arena& arena, Index rows) const {
  if (products_ == Products::kFloat32) return {};
  const Index elements = kernels::Bf16Rows::elements(rows, inner_);
  return {arena.take<std::uint16_t, 1>({elements}).data(), rows, inner_};
}

FeedForward::Saved FeedForward::plan(Arena& arena, Index rows) const {
  Saved saved;
  saved.hidden = arena.matrix(rows, inner_);
  saved.activated = plan_activated(arena, rows);
  saved.gradient = arena.matrix(rows, inner_);
  saved.rounded = plan_rounded(arena, rows);
  return saved;
}

void FeedForward::forward(const Runtime& run, ConstMatrix x, Matrix y, Saved& saved,
                          ConstMatrix residual) const {
  kernels::Bf16Epilogue activate;
  activate.activation = activation_;
  kernels::Epilogue add;
  add.residual = residual;
  if (products_ != Products::kFloat32) {
    activate.rounded = saved.rounded;
    in_.forward(run, kernels::Bf16Operand{x}, saved.hidden, activate);
    out_.forward(run, rounded(saved), y, add);
    return;
  }
  activate.activated = saved.activated;
  in_.forward(run, x, saved.hidden, activate);
  out_.forward(run, saved.activated, y, add);
}

// a = act(u), u = x W1 + b1:  du = (dy W2ᵀ) ∘ act'(u). In float32 the activation is computed again
// from u by the same function rather than kept: F floats a token less to hold.
void FeedForward::backward(const Runtime& run, ConstMatrix dy, ConstMatrix x, const Saved& saved,
                           Matrix dx) {
  kernels::Epilogue derivative;
  derivative.activation_input = saved.hidden;
  derivative.activation = activation_;
  if (products_ != Products::kFloat32) {
    out_.backward(run, dy, rounded(saved), saved.gradient, derivative);
  } else {
    derivative.activated = saved.activated;
    out_.backward(run, dy, saved.activated, saved.gradient, derivative);
  }
  in_.backward(run, saved.gradient, x, dx);
}

void FeedForward::pack(const Runtime& run, kernels::WeightFormat format) {
  in_.pack(run, format);
  out_.pack(run, format);
}

void FeedForward::set_products(Products products) {
  in_.set_products(products);
  out_.set_products(products);
  products_ = products;
}

}  // namespace prenorm
