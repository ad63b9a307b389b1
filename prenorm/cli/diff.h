// `prenorm diff`: what differs between two checkpoints, tensor by tensor.
#pragma once
#include <memory>

#include "prenorm/cli/verb.h"

namespace prenorm::cli {

std::unique_ptr<Verb> make_diff();

}  // namespace prenorm::cli
