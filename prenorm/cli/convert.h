// `prenorm convert`: a model from one layout and floating-point type into another.
#pragma once
#include <memory>

#include "prenorm/cli/verb.h"

namespace prenorm::cli {

std::unique_ptr<Verb> make_convert();

}  // namespace prenorm::cli
