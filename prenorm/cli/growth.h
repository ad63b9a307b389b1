// `prenorm growth`: activations and gradients by depth, and what they do to training.
#pragma once
#include <memory>

#include "prenorm/cli/verb.h"

namespace prenorm::cli {

std::unique_ptr<Verb> make_growth();

}  // namespace prenorm::cli
