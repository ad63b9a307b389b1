// The feed-forward network of a block:
//
//   FFN(x) = act(x W1 + b1) W2 + b2        W1: c_fc [C, F], W2: c_proj [F, C]
//
// The derivation of the backward pass is docs/derivations/feed_forward.md.
#pragma once
#include "prenorm/reference/activation.h"
#include "prenorm/reference/linear.h"
#include "prenorm/reference/stages.h"

namespace prenorm::reference {

template <typename S>
struct FeedForwardParameters {
  LinearParameters<S> c_fc = {}, c_proj = {};
};

struct FeedForwardOptions {
  LinearOptions c_fc = {}, c_proj = {};
  ActivationOptions act = {};
};

// x: [.., C]; returns [.., C]. Stages: c_fc, act, c_proj.
template <typename S>
Tensor<S> feed_forward(const Tensor<S>& x, const FeedForwardParameters<S>& p,
                       const FeedForwardOptions& options = {}, const Recorder<S>& record = {}) {
  const Tensor<S> a = record("c_fc", linear(x, p.c_fc, options.c_fc));
  const Tensor<S> h = record("act", activation(a, options.act));
  return record("c_proj", linear(h, p.c_proj, options.c_proj));
}

// With a = x W1 + b1 and h = act(a):   dh = dy W2ᵀ,   da = dh ⊙ act'(a),   dx = da W1ᵀ
template <typename S>
Gradients<S, FeedForwardParameters<S>> feed_forward_backward(
    const Tensor<S>& dy, const Tensor<S>& x, const FeedForwardParameters<S>& p,
    const FeedForwardOptions& options = {}) {
  const Tensor<S> a = linear(x, p.c_fc, options.c_fc);
  const Tensor<S> h = activation(a, options.act);

  auto [dh, dc_proj] = linear_backward(dy, h, p.c_proj, options.c_proj);
  const Tensor<S> da = activation_backward(dh, a, options.act);
  auto [dx, dc_fc] = linear_backward(da, x, p.c_fc, options.c_fc);
  return {std::move(dx), {std::move(dc_fc), std::move(dc_proj)}};
}

}  // namespace prenorm::reference
