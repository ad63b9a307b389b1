// prenorm generate: continues a text with a model:
// model folder and prompt → tokens as they come.
// Its flags are in docs/cli.md.
#pragma once
#include <memory>

#include "prenorm/cli/verb.h"

namespace prenorm::cli {

std::unique_ptr<Verb> make_generate();

}  // namespace prenorm::cli
