// Properties of a model's blocks, one after another on the stream that really reaches them: a block
// whose sub-layers are zero is the identity, its gradients agree with dual numbers, and the rows of
// its norms have mean 0 and variance σ²/(σ² + ε).
#pragma once
#include <vector>

#include "prenorm/study/check_subject.h"

namespace prenorm {

// Of at most 12 blocks, spread evenly over the depth, and the final norm.
std::vector<Property> check_blocks(const CheckContext& context);

}  // namespace prenorm
