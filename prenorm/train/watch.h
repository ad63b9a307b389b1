// The health of each block while a model trains: how large its activations and gradients are. Read
// from a training pass as it goes (GptObserver), changing none of its bits.
//
//   Watch watch(model);
//   model.forward_backward(run, work, batch, scale, {}, watch.observer());
//   const WatchFrame frame = watch.finish(iter);
#pragma once
#include <vector>

#include "prenorm/model/gpt.h"

namespace prenorm {

// Of one block in one step; activations are those of the step's first micro-batch. A number that is
// not finite makes those that it goes into not finite.
struct LayerHealth {
  double rms = 0.0;        // root mean square of the block's output, the stream
  double spread = 0.0;     // standard deviation of the same numbers
  double largest = 0.0;    // of their sizes
  double zeros = 0.0;      // share of the feed-forward's units that are off: ReLU's zeros, and of a
                           // GELU what is smaller than 0.001
  double max_score = 0.0;  // largest attention score, scaled, that a query gives to a key it sees
  double grad_norm = 0.0;  // of the block's parameters, before clipping
};

struct WatchFrame {
  Index iter = 0;  // steps completed, this one included
  double loss = 0.0, grad_norm = 0.0;
  std::vector<LayerHealth> layers;
};

class Watch {
 public:
  // The model must outlive the watch and stay where it is.
  explicit Watch(const Gpt& model);
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  // Begins a frame, for the first pass of a step.
  const GptObserver* observer();
  // Ends it, once the step's gradients are complete. Loss and norm of all are for the caller.
  WatchFrame finish(Index iter);

 private:
  void look(Index layer, const TransformerBlock::Saved& saved, ConstMatrix y);
  double share_of_zeros(ConstMatrix hidden) const;

  const Gpt& model_;
  // An activation of a number in [low_, high_] or at most tail_ is as good as zero.
  float tail_ = 0.0f, low_ = 0.0f, high_ = 0.0f;
  WatchFrame frame_;
  GptObserver observer_;
};

}  // namespace prenorm
