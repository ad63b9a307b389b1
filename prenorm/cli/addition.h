// prenorm addition: writes addition problems to train on, and grades a model on sums that it has
// never seen.
// Its flags are in docs/cli.md.
#pragma once
#include <memory>

#include "prenorm/cli/verb.h"

namespace prenorm::cli {

std::unique_ptr<Verb> make_addition();

}  // namespace prenorm::cli
