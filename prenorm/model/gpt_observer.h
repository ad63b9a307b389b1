// A training pass seen from inside: what goes into each block and comes out, and the gradient of
// the stream between them. For studies of depth and for the watch of training; without an observer
// a pass does nothing more than before.
//
//   GptObserver observer;
//   observer.on_block = [&](Index layer, ConstMatrix x, const auto& saved, ConstMatrix y) { ... };
//   model.forward_backward(run, work, batch, scale, {}, &observer);
#pragma once
#include <functional>

#include "prenorm/layers/transformer_block.h"

namespace prenorm {

// Called on the thread of the pass, between its steps; the views are valid during the call. Any may
// be empty.
struct GptObserver {
  // Block `layer` has been computed from x: [N, C] to y: [N, C]; `saved` is what its backward pass
  // will read (its shared buffers hold nothing of use).
  std::function<void(Index layer, ConstMatrix x, const TransformerBlock::Saved& saved,
                     ConstMatrix y)>
      on_block = {};
  // The final norm, from x to y: [N, C].
  std::function<void(ConstMatrix x, ConstMatrix y)> on_final_norm = {};
  // The gradient of the stream before block `layer`: [N, C], from n_layer (before the final norm)
  // down to 0. The gradients of the parameters of that block and of all after it have been added.
  std::function<void(Index layer, ConstMatrix gradient)> on_gradient = {};
};

}  // namespace prenorm
