// Properties of a model's logits that hold bit for bit: causality, independence of the batch, of
// the key/value cache and of the number of threads.
#pragma once
#include <vector>

#include "prenorm/study/check_subject.h"

namespace prenorm {

// A property that a model is too small to have (nothing stands before the only token of a context
// of 1) is left out. Throws NumericalError where the logits are not finite.
std::vector<Property> check_bits(const CheckContext& context);

}  // namespace prenorm
