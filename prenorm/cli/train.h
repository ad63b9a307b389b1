// prenorm train: trains a model on text, or goes on with a run:
// text files → tokens → Gpt → Trainer → run folder.
// Its flags are in docs/cli.md.
#pragma once
#include <memory>

#include "prenorm/cli/verb.h"

namespace prenorm::cli {

std::unique_ptr<Verb> make_train();

}  // namespace prenorm::cli
