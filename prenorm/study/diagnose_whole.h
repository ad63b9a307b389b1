// What a search on few rows and few columns of the vocabulary leaves out: which sequence is the
// furthest off, so that it is searched first, and the logits that were not compared.
#pragma once
#include "prenorm/study/diagnose_input.h"

namespace prenorm {

// The sequence that is the furthest from the right model, relative to the size of its stages.
Index furthest_sequence(const Runtime& run, const DiagnoseModel& model,
                        const DiagnoseProblem& problem);

// Mean square of their logits of one sequence minus a replay's, over the whole vocabulary: `x` is
// what goes into the head, [T, C], `logits` all that the dump has.
double whole_vocabulary_residual(const Runtime& run, const Floats& head, const Values& x,
                                 const Floats& logits, Index sequence);

}  // namespace prenorm
