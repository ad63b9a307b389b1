// A layer by the kernels, in float: `prenorm apply`.
#pragma once
#include "prenorm/study/layer_pass.h"

namespace prenorm {

// Numbers that are not floats are rounded to nearest first. Throws ShapeError for shapes that do
// not fit each other. Requires: no tensor is empty.
LayerOutcome kernel_pass(const Runtime& run, const LayerPass& pass);

}  // namespace prenorm
