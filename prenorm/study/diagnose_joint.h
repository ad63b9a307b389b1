// Models that differ in their mistakes alone, each on the same few tokens, side by side: a matrix
// of weights is read once for all of them, which is most of the time of a pass of few tokens.
//
//   JointPass pass(run, replay, options, arithmetic);     // one member for each of the options
//   for (Index layer = 2; layer < layers; ++layer) x = pass.block(layer, x);
//   const Values logits = pass.end(x);                    // [members · T, columns]
//
// None of its members may see later tokens than the replay has: their attention has no others.
#pragma once
#include <functional>
#include <span>
#include <vector>

#include "prenorm/study/diagnose_replay.h"

namespace prenorm {

class JointPass {
 public:
  // `replay`: of one sequence, of which its model, length and heads are used. Both must outlive
  // this. Works on the calling thread alone.
  JointPass(const Runtime& run, const Replay& replay,
            std::span<const reference::GptOptions> options, Arithmetic arithmetic);

  // From the streams into a layer to those after it, [members · T, C].
  Values block(Index layer, const Values& x) const;
  // From the streams after the last layer to the logits in the compared columns.
  Values end(const Values& x) const;

 private:
  using Linear = reference::LinearOptions;

  Index tokens() const { return replay_.problem().time; }
  // What `make` makes of each member's rows.
  Values each(Index columns, const std::function<Values(std::size_t member)>& make) const;
  Values rows_of(const Values& x, std::size_t member) const;
  Values norm(const Values& x, const reference::LayerNormParameters<double>& p,
              const reference::LayerNormOptions& options) const;
  Values linear(const Values& x, const reference::LinearParameters<float>& p,
                const std::function<const Linear&(std::size_t member)>& options) const;
  Values attention(Index layer, const Values& x) const;
  Values feed_forward(Index layer, const Values& x) const;

  const Runtime& run_;
  const Replay& replay_;
  std::span<const reference::GptOptions> options_;
  Arithmetic arithmetic_;
};

// The logits of models that are causal, each on the replay's tokens from the embeddings on: [T,
// columns]. On the runtime's threads.
std::vector<Values> logits_of_each(const Runtime& run, const Replay& replay,
                                   std::span<const reference::GptOptions> options,
                                   Arithmetic arithmetic);

}  // namespace prenorm
