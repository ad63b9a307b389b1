// `prenorm diagnose`: names the mistake in code whose numbers differ from the model's.
#pragma once
#include <memory>

#include "prenorm/cli/verb.h"

namespace prenorm::cli {

std::unique_ptr<Verb> make_diagnose();

}  // namespace prenorm::cli
