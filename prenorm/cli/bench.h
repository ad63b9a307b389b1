// prenorm bench: what this machine can do, and how close a training step comes.
// Its flags are in docs/cli.md.
#pragma once
#include <memory>

#include "prenorm/cli/verb.h"

namespace prenorm::cli {

std::unique_ptr<Verb> make_bench();

}  // namespace prenorm::cli
