// Screens hypotheses on the first tokens, many at once, where a dump has the logits alone. A right
// model is causal, and so is one with most mistakes: a few tokens tell. Models that are mistaken in
// one layer are those of the right one up to there; from there on they go through the layers side
// by side (diagnose_joint.h). A mistake that looks ahead, in one layer, has the right model's later
// tokens to look at.
//
//   DiagnoseCrowd crowd(run, whole, few);   // of one sequence, and of its first tokens
//   if (DiagnoseCrowd::takes(set, start)) sets.push_back(set);
//   for (const Values& logits : crowd.logits(sets)) use(crowd.score_of(logits));
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
  // `start`: mistakes that every set begins with; none that looks ahead. `whole` and `few` must
  // outlive this.
  DiagnoseCrowd(const Runtime& run, const Evaluation& whole, const Evaluation& few,
                Mistakes start = {}, Arithmetic arithmetic = Arithmetic::kDouble);

  // Whether such a dump may be screened so, on so many tokens: its logits, of more tokens.
  static bool serves(const DiagnoseProblem& problem, const StageList& stages, Index tokens);
  // Whether what the set adds to the start is causal, or looks ahead in one layer alone.
  static bool takes(const Mistakes& set, const Mistakes& start);

  // The start alone, on the first tokens.
  Score start_score() const { return start_score_; }
  // The logits there of sets that the crowd takes, in the compared columns, and how well some
  // explain theirs.
  std::vector<Values> logits(std::span<const Mistakes> sets) const;
  Score score_of(const Values& logits) const;

 private:
  using Shared = DiagnosePass::Shared;
  struct Group {  // sets whose first mistake is in one layer; layers(): at the end
    Index layer;
    bool ahead;  // which may look ahead there
    std::vector<std::size_t> sets;
  };

  const StageList& stages() const { return few_.replay().stages(); }
  Index tokens() const { return few_.replay().problem().time; }
  std::span<const MistakeChoice> added(const Mistakes& set) const;
  Index layer_of(const Mistakes& set) const;
  std::vector<Group> groups(std::span<const Mistakes> sets) const;
  // What goes into a layer, of the model with the mistakes of the start.
  static const Shared& into(const Trace& trace, const StageList& stages, Index layer);
  Shared first_stream(Index layer, const reference::GptOptions& options) const;
  Shared after_layer(Index layer, const Mistakes& set, const Trace& whole_trace) const;
  void run_group(const Group& group, std::span<const Mistakes> sets, const Trace* whole_trace,
                 std::vector<Values>& out) const;

  const Runtime& run_;
  const Evaluation &whole_, &few_;
  Arithmetic arithmetic_;
  Mistakes start_;
  Trace few_trace_;  // with the start's mistakes
  Score start_score_;
};

}  // namespace prenorm
