// The pages of `prenorm --help`, `prenorm VERB --help` and `prenorm --version`.
#pragma once
#include <span>
#include <string>

#include "prenorm/cli/verb.h"

namespace prenorm::cli {

std::string program_help(std::span<const VerbEntry> verbs);
std::string verb_help(const VerbEntry& verb, const OptionTable& table);
// Version, compiler, and the instruction sets this machine runs.
std::string version_text();

}  // namespace prenorm::cli
