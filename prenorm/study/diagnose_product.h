// Products of activations and weights, as a replay makes them: in double, in float with the
// library's own sums, or in float as quickly as may be.
#pragma once
#include "prenorm/kernels/runtime.h"
#include "prenorm/study/diagnose_model.h"
#include "prenorm/study/diagnose_replay.h"

namespace prenorm {

// x: [rows, C], w: [C, columns]. `spread`: over the runtime's threads where sums are in double,
// else on the calling one; in Arithmetic::kFloat always on the runtime's.
Values product(const Runtime& run, const Values& x, const Floats& w, Arithmetic arithmetic,
               bool spread);

}  // namespace prenorm
