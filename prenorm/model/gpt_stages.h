// The backward pass of a Gpt in stages, for training on several machines: before a stage the
// gradients that it adds to can be brought from elsewhere, and after it they can be sent on while
// the next stage is computed.
//
//   GptStages stages;
//   stages.before = [&](Index stage) { wait_for(model.stage_gradients(work, stage)); };
//   stages.after = [&](Index stage) { send_on(model.stage_gradients(work, stage)); };
//   model.forward_backward(run, work, batch, scale, {}, nullptr, &stages);
#pragma once
#include <functional>

#include "prenorm/layers/cross_entropy_head.h"

namespace prenorm {

// Both are called on the thread of the pass, for each stage in the order of the backward pass,
// after the whole forward pass. Neither may be empty.
struct GptStages {
  std::function<void(Index stage)> before, after;
  // Read after before(0): the loss of the tokens before these, to which that of these is added. Cut
  // after whole blocks of 256 tokens, a batch has the bits of one pass over all of it.
  LossSum loss_before = {};
  // Set before after(0): loss_before and that of these tokens.
  LossSum loss = {};
};

}  // namespace prenorm
