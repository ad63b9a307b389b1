// A layer by the textbook, in double: `prenorm apply --reference`.
#pragma once
#include "prenorm/study/layer_pass.h"

namespace prenorm {

// Throws ShapeError for shapes that do not fit each other.
LayerOutcome textbook_pass(const LayerPass& pass);

}  // namespace prenorm
