// The properties that a Transformer of this kind has, measured on a given model with its own
// weights: `prenorm check`.
//
//   for (const Property& p : check_model(run, *model)) show(p.name, p.measured, p.bound,
//   p.passed());
#pragma once
#include <functional>
#include <string_view>
#include <vector>

#include "prenorm/study/check_subject.h"

namespace prenorm {

struct CheckOptions {
  std::uint64_t seed = 1;  // of the tokens and directions
  // Told what comes next; may be empty.
  std::function<void(std::string_view)> on_stage = {};
  CheckSeams seams = {};
};

// In order: causality, batch, cache, threads (check_bits.h), identity, gradients, norm-mean,
// norm-variance (check_blocks.h), model-gradients, gradient-threads (check_gradients.h). Takes
// seconds: of a large model, a corner. Requires: the weights are finite. Throws NumericalError
// where the logits are not.
std::vector<Property> check_model(const Runtime& run, const Gpt& model,
                                  const CheckOptions& options = {});

bool all_passed(const std::vector<Property>& properties);

}  // namespace prenorm
