// Screens hypotheses that concern one layer each, many at once, where a dump has the logits alone.
// Layers before the mistaken one are those of the right model, known already; from there on a right
// model is causal, so that a few tokens tell: what each hypothesis makes of them in its layer goes
// through the other layers with that of others, as sequences of one batch.
//
//   DiagnoseCrowd crowd(run, whole, numbers);        // `whole`: of one sequence
//   if (crowd.takes(set)) …
//   crowd.scores(sets);                              // on the first tokens
#pragma once
#include <optional>
#include <vector>

#include "prenorm/study/diagnose_evaluation.h"
#include "prenorm/study/diagnose_pass.h"

namespace prenorm {

// Whether an output may depend on later tokens: these need whole sequences.
bool looks_ahead(const Mistakes& mistakes);

class DiagnoseCrowd {
 public:
  // `start`: mistakes that every set begins with; none that looks ahead. `whole` must outlive this.
  DiagnoseCrowd(const Runtime& run, const Evaluation& whole, reference::Numbers numbers,
                Mistakes start = {}, Arithmetic arithmetic = Arithmetic::kDouble);

  // Whether such a dump may be screened so: its logits, of more than these few tokens.
  static bool serves(const DiagnoseProblem& problem, const StageList& stages);
  // Whether what the set adds to the start concerns one layer or the end.
  bool takes(const Mistakes& set) const;

  // The start alone, and sets that the crowd takes, on the first tokens.
  Score start_score() const { return start_score_; }
  std::vector<Score> scores(std::span<const Mistakes> sets) const;

 private:
  using Shared = DiagnosePass::Shared;
  struct Group {  // sets whose mistakes are in one layer; layers(): at the end
    Index layer;
    std::vector<std::size_t> sets;
  };

  const StageList& stages() const { return few_replay_.stages(); }
  Index layer_of(const Mistakes& set) const;
  std::vector<Group> groups(std::span<const Mistakes> sets) const;
  // What goes into a layer, of the model with the mistakes of the start.
  static const Shared& into(const Trace& trace, const StageList& stages, Index layer);
  Shared after_layer(Index layer, const Mistakes& set) const;
  void score(const Group& group, std::span<const Mistakes> sets, std::vector<Score>& out) const;
  Score score_at_end(const Mistakes& set) const;

  const Runtime& run_;
  const Evaluation& whole_;
  Arithmetic arithmetic_;
  Mistakes start_;
  Replay few_replay_;
  Evaluation few_;
  Trace whole_trace_, few_trace_;  // with the start's mistakes
  reference::GptOptions start_options_;
  Score start_score_;
};

}  // namespace prenorm
