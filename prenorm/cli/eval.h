// prenorm eval: measures how well a model predicts a text:
// model folder and text files → loss, perplexity, bits per byte.
// Its flags are in docs/cli.md.
#pragma once
#include <memory>

#include "prenorm/cli/verb.h"

namespace prenorm::cli {

std::unique_ptr<Verb> make_eval();

}  // namespace prenorm::cli
