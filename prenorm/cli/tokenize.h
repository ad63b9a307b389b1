// prenorm tokenize: text → token ids, and back. Its flags are in docs/cli.md.
#pragma once
#include <memory>

#include "prenorm/cli/verb.h"

namespace prenorm::cli {

std::unique_ptr<Verb> make_tokenize();

}  // namespace prenorm::cli
