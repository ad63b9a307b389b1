// A layer by the textbook, in double: `prenorm apply --reference`.
#pragma once
#include "prenorm/reference/transformer_block.h"
#include "prenorm/study/layer_pass.h"

namespace prenorm {

// Throws ShapeError for shapes that do not fit each other.
LayerOutcome textbook_pass(const LayerPass& pass);

// The textbook's words for the options of the layers.
reference::Activation textbook_activation(Activation activation);
reference::NormPlacement textbook_norm(NormPlacement norm);

}  // namespace prenorm
