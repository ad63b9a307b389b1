// Where in a training step the first number that is not finite came to be. A step is a function of
// weights and batch, so it is computed once more, to the same bits, and looked at from inside; a
// step that was finite costs nothing.
//
//   NonFiniteTrace trace(model);
//   model.forward_backward(run, work, batch, scale, {}, trace.observer());
//   trace.look_at_loss(loss);
//   if (trace.found()) tell(*trace.found());
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "prenorm/model/gpt.h"
#include "prenorm/train/watch.h"

namespace prenorm {

struct NonFinite {
  Index iter = 0;     // steps completed, this one (which was skipped) included
  std::string pass;   // "forward", "loss", "backward", or "sum": of all gradients, each of which is
                      // finite
  Index layer = -1;   // the block, or −1: outside of the blocks
  std::string stage;  // Hugging Face's name: "transformer.h.3.attn.c_attn"; "gradient of …" in the
                      // backward pass
  double value = 0.0;              // the number: NaN or an infinity
  std::vector<WatchFrame> frames;  // the last ones before it
};

// "nan", "inf" or "-inf": the sign of a NaN says nothing.
std::string value_text(double value);

class NonFiniteTrace {
 public:
  // The model must outlive the trace. Its gradients are zero before the pass.
  explicit NonFiniteTrace(const Gpt& model);
  NonFiniteTrace(const NonFiniteTrace&) = delete;
  NonFiniteTrace& operator=(const NonFiniteTrace&) = delete;

  const GptObserver* observer() { return &observer_; }
  // After the pass.
  void look_at_loss(double loss);
  // The first in the order of computation; of the weights' gradients within a block the first in
  // the order of the backward pass. Its iter and frames are for the caller.
  const std::optional<NonFinite>& found() const { return found_; }

 private:
  void look_at_block(Index layer, ConstMatrix x, const TransformerBlock::Saved& saved,
                     ConstMatrix y);
  void look_at_gradient(Index layer, ConstMatrix gradient);
  template <typename Values>
  bool look(const char* pass, Index layer, const std::string& stage, const Values& values);

  const Gpt& model_;
  GptObserver observer_;
  std::optional<NonFinite> found_, backward_;  // the loss stands between the passes
};

}  // namespace prenorm
