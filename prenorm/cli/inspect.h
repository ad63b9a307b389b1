// prenorm inspect: shows what a model folder or a safetensors file holds:
// folder or file → table of tensors, parameters, memory, arithmetic.
// Its flags are in docs/cli.md.
#pragma once
#include <memory>

#include "prenorm/cli/verb.h"

namespace prenorm::cli {

std::unique_ptr<Verb> make_inspect();

}  // namespace prenorm::cli
