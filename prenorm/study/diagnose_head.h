// Whether logits come from the right model but through another, unknown head: they are then a
// linear function of the final norm's output, which more tokens than features can show.
#pragma once
#include "prenorm/study/diagnose_evaluation.h"
#include "prenorm/study/diagnose_input.h"

namespace prenorm {

// With the final norm's output in the dump and right, any other logits are another head's. Without,
// the logits must be some matrix times what the replay computes, to within `times` their rounding;
// false unless there are more tokens than features.
bool head_is_another(const Runtime& run, const DiagnoseModel& model, const DiagnoseInput& input,
                     const Evaluation& evaluation, double times);

}  // namespace prenorm
