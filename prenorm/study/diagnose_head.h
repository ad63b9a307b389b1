// Whether logits come from the right model but through another, unknown head: they are then a
// linear function of the final norm's output, which more tokens than features can show.
#pragma once
#include <optional>
#include <vector>

#include "prenorm/study/diagnose_evaluation.h"
#include "prenorm/study/diagnose_input.h"

namespace prenorm {

// Whether no final norm's output, whatever was mistaken before it, goes through a head that the
// model knows to these logits: of a vocabulary that is larger than the width they must lie among
// the sums of its columns. False where that cannot be told. `right`: the right model's replay.
bool no_known_head_follows(const DiagnoseModel& model, const Trace& right,
                           const DiagnoseProblem& problem);

// With the final norm's output in the dump and right, any other logits are another head's. Without,
// the logits must be some matrix times what the replay computes, to within `times` their rounding;
// false unless there are more tokens than features.
bool head_is_another(const Runtime& run, const DiagnoseModel& model, const DiagnoseInput& input,
                     const Evaluation& evaluation, double times);

// The same from the final norm's output in the dump alone, whatever was mistaken before it: their
// logits are far from what our tied head makes of it, and some matrix times it where that can be
// told. How far, relative to the size of the logits; nothing without that stage, and where no other
// head could be named.
std::optional<double> another_head_follows(const DiagnoseModel& model, const DiagnoseInput& input,
                                           const Evaluation& evaluation);

// The same from logits alone, with one mistake everywhere before the head: every mistake after
// which some matrix makes their logits of the final norm's output, to within `times` the rounding
// of `evaluation`, the best first. Needs more tokens than features.
std::vector<MistakeChoice> mistakes_before_another_head(const Runtime& run,
                                                        const DiagnoseModel& model,
                                                        const DiagnoseInput& input,
                                                        const Evaluation& evaluation, double times);

}  // namespace prenorm
