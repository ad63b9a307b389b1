// The forward pass of a model with any set of mistakes, each stage replayed in double from the
// user's own input to it where their dump has that, else from what the replay computed itself.
//
//   const Replay replay(isa, model, problem);
//   const Trace right = replay.run(model.options());
//   const Trace other = replay.run(options_with_a_mistake, &right);   // only what it changes
//   other.residual(slot)   // mean square of theirs minus replayed, where the dump has the stage
//
// A stage whose inputs and options are those of the trace it is compared with is taken from there:
// a mistake in one layer costs what comes after it up to the next dumped stage.
#pragma once
#include <map>
#include <memory>
#include <vector>

#include "prenorm/kernels/runtime.h"
#include "prenorm/study/diagnose_model.h"
#include "prenorm/study/diagnose_stages.h"

namespace prenorm {

// What the user gave: what went in, and what their code computed.
struct DiagnoseProblem {
  Index batch = 1, time = 0;
  std::vector<TokenId> tokens;                            // [B, T]; empty where `embedded` is given
  Values embedded;                                        // [B·T, C], the sum of the embeddings
  std::map<Index, std::shared_ptr<const Values>> theirs;  // by slot, [B·T, ..]
  // The logits are compared in these columns of the vocabulary.
  std::vector<Index> logit_columns;

  Index rows() const { return batch * time; }
  bool has(Index slot) const { return theirs.contains(slot); }
  // The first `batch` sequences and, of each, the first `time` tokens.
  DiagnoseProblem cropped(Index batch, Index time) const;
  // The same with that sequence in the first one's place.
  DiagnoseProblem with_first(Index sequence) const;
};

using StageKey = std::vector<double>;

struct TracedStage {
  std::shared_ptr<const Values> computed;  // by the replay
  std::shared_ptr<const Values> used;      // theirs where there is one: what comes next reads this
  std::vector<const Values*> inputs;
  StageKey key;           // the options that it was computed with
  double residual = 0.0;  // mean square of theirs − computed; infinite where that is not finite
};

class Trace {
 public:
  explicit Trace(Index slots) : stages(static_cast<std::size_t>(slots)) {}
  const TracedStage& at(Index slot) const { return stages[static_cast<std::size_t>(slot)]; }
  TracedStage& at(Index slot) { return stages[static_cast<std::size_t>(slot)]; }
  double residual(Index slot) const { return at(slot).residual; }

  std::vector<TracedStage> stages;
};

// How sums are made: in double; as float32 code makes them, every result rounded; or the products
// of matrices in float and the rest in double, which is the quickest.
enum class Arithmetic { kDouble, kFloat, kQuick };

// Which stages of a pass are there when it is done: all, or those that the dump has and the last of
// the residual stream. A pass that keeps few works in memory that the processor's caches hold, but
// none can be compared with it.
enum class Keep { kAll, kCompared };

class DiagnosePass;

class Replay {
 public:
  // The model must outlive this.
  Replay(const Runtime& run, const DiagnoseModel& model, DiagnoseProblem problem);

  const DiagnoseModel& model() const { return model_; }
  const DiagnoseProblem& problem() const { return problem_; }
  const StageList& stages() const { return stages_; }
  // The slots that are compared, in order.
  const std::vector<Index>& observed() const { return observed_; }

  // `base`: a trace that has kept all its stages. `spread`: over the runtime's threads; else on the
  // calling thread alone, so that several may run at once.
  Trace run(const reference::GptOptions& options, const Trace* base = nullptr, bool spread = true,
            Arithmetic arithmetic = Arithmetic::kDouble, Keep keep = Keep::kAll) const;

  // The same pass in float32 arithmetic, or in a type of fewer bits. Not to be called by several
  // threads at once.
  Trace rounded_run(const reference::GptOptions& options, reference::Numbers numbers,
                    const Trace* base = nullptr, Keep keep = Keep::kAll) const;
  // The head's columns that are compared, [C, columns]; absent where there is none.
  const Floats& head(bool tied) const { return tied ? tied_head_ : untied_head_; }
  // Mean square of the rounding of an observed stage: what such a pass makes of it against `exact`,
  // from the same inputs where the dump has them. Never zero but where the stage is not computed.
  double rounding(Index slot, const Trace& exact, const Trace& rounded) const;

 private:
  const Runtime& run_;
  const DiagnoseModel& model_;
  DiagnoseProblem problem_;
  StageList stages_;
  std::vector<Index> observed_;
  Floats tied_head_, untied_head_;  // [C, columns] in the compared columns
};

// Mean square of a − b; infinite where it is not a number.
double mean_square_difference(const Values& a, const Values& b);
double mean_square(const Values& a);

// Rows [first, first + count).
Values row_range(const Values& x, Index first, Index count);

}  // namespace prenorm
