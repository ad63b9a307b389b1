// prenorm fingerprint: whether this machine and build give the bits that prenorm promises:
// fixed inputs → every kernel, a small training → hashes, against the recorded ones.
// Its flags are in docs/cli.md.
#pragma once
#include <memory>

#include "prenorm/cli/verb.h"

namespace prenorm::cli {

std::unique_ptr<Verb> make_fingerprint();

}  // namespace prenorm::cli
