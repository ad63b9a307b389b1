// prenorm apply: one layer, block or model on tensors from files, with its gradients:
// parameters and inputs → output, gradients.
// Its flags are in docs/cli.md.
#pragma once
#include <memory>

#include "prenorm/cli/verb.h"

namespace prenorm::cli {

std::unique_ptr<Verb> make_apply();

}  // namespace prenorm::cli
