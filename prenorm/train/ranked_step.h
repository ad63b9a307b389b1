// A training step over several ranks, to the bits of a step on one.
//
// The gradient travels. A gradient is a chain: the sums over blocks of 256 tokens are added in
// ascending order to what it holds. The step's pieces (step_pieces.h) are dealt to the ranks in
// turn, and before a rank computes a stage of a piece's backward pass it receives that stage's
// gradient from the rank of the piece before; after it, it sends it on while it computes the next
// stage. So all ranks compute at once, each one stage behind the one before it, and the sum is the
// one that a single rank would make. The last piece's rank sends what is complete to the ranks that
// own it (adamw.h); each updates its part and shares it.
//
// Reduce::kFast adds each rank's sums in whatever order the machinery likes, without the lags: the
// bits then depend on the ranks.
//
//   RankedStep step(run, model, work, ranks, {.reduce = Reduce::kExact}, pieces.list());
//   const RankedStep::Result done = step.take(optimizer, learning_rate, pass);
#pragma once
#include <functional>
#include <vector>

#include "prenorm/model/gpt.h"
#include "prenorm/train/adamw.h"
#include "prenorm/train/ranks.h"
#include "prenorm/train/step_pieces.h"

namespace prenorm {

enum class Reduce { kExact, kFast };

// All moments at rank 0, where the optimizer assembles them until keep_own().
void gather_moments(Ranks& ranks, AdamW& optimizer);

class RankedStep {
 public:
  // All must outlive it. The optimizer given to take() owns part rank() of size().
  RankedStep(const Runtime& run, Gpt& model, Gpt::Workspace& work, Ranks& ranks, Reduce reduce,
             std::vector<StepPiece> pieces);

  // Forward and backward over a piece, with these stages.
  using Pass = std::function<LossSum(const StepPiece&, GptStages&)>;
  struct Result {
    double loss = 0.0;  // mean over the step's tokens
    AdamW::Result update;
  };
  // The whole step; every rank ends with the same loss, norm and values, and gradients of zero.
  Result take(AdamW& optimizer, double learning_rate, const Pass& pass);

 private:
  using Requests = std::vector<Ranks::Request>;
  struct Stage {
    std::vector<std::span<float>> gradients;  // all that it adds to
    std::vector<std::span<float>> complete;   // what of the registry's is complete after it
    Requests arriving, leaving;
    bool posted = false;  // its receives, of this piece
    bool wanted = false;  // the receives of this rank's part of what is complete
  };

  void travel(const Pass& pass, const ParameterChunks& parts);
  void reduce(const Pass& pass, const ParameterChunks& parts);
  bool left(const Requests& requests) const;
  void post_receives(std::size_t stage);
  void post_free_receives();
  void receive_before(std::size_t piece, std::size_t stage);
  void send_after(std::size_t piece, std::size_t stage, const ParameterChunks& parts);
  void hand_out(std::size_t stage, const ParameterChunks& parts);
  void want_parts(std::size_t through, bool wait, const ParameterChunks& parts);
  void sum_parts(std::size_t stage, const ParameterChunks& parts);
  Result finish(AdamW& optimizer, double learning_rate);
  void wait(Requests& requests);
  int last_rank() const;

  const Runtime& run_;
  Gpt& model_;
  Gpt::Workspace& work_;
  Ranks& ranks_;
  Reduce reduce_;
  std::vector<StepPiece> pieces_;
  std::vector<Stage> stages_;
  Requests parts_;  // of parts that are complete, on their way
  Ranks::Request loss_arriving_ = 0, loss_leaving_ = 0;
  GptStages hooks_;
  LossSum micro_;                           // of the micro-batch so far
  LossSum total_;                           // of those before it
  std::vector<double> loss_in_, loss_out_;  // both as a message
};

}  // namespace prenorm
