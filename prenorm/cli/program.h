// The program: finds the verb, reads its options, runs it, and turns errors into one line on
// standard error and an exit code.
#pragma once
#include <string>
#include <vector>

#include "prenorm/cli/option_reader.h"
#include "prenorm/cli/verb.h"

namespace prenorm::cli {

// `arguments` without the program's name. Never throws.
int run_program(std::vector<std::string> arguments, std::vector<Variable> environment,
                const Streams& streams) noexcept;

// The variables that begin with PRENORM_.
std::vector<Variable> program_environment(const char* const* environment);

}  // namespace prenorm::cli
