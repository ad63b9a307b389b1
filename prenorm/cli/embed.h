// prenorm embed: texts → one vector each, by a BERT-family sentence encoder.
// Its flags are in docs/cli.md.
#pragma once
#include <memory>

#include "prenorm/cli/verb.h"

namespace prenorm::cli {

std::unique_ptr<Verb> make_embed();

}  // namespace prenorm::cli
