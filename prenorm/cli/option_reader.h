// Fills a verb's options from the command line, the environment and a TOML file, in that order of
// precedence.
#pragma once
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "prenorm/cli/arguments.h"
#include "prenorm/cli/config_file.h"

namespace prenorm::cli {

// A name and its value, as in the environment.
using Variable = std::pair<std::string, std::string>;

// What one run of the program was given.
struct Invocation {
  std::vector<std::string> arguments;  // after the verb
  std::vector<Variable> environment;   // those that begin with PRENORM_
};

// Variables of other verbs are passed over; throws ConfigError for one that no verb knows.
std::vector<GivenValue> read_environment(OptionTable& table, std::span<const Variable> variables,
                                         std::span<const VerbTable> verbs);

// The whole of it; the option "config", where the table has it, names the file. Every value of
// every source is checked, overruled ones too. False: help is asked for, and nothing else was
// looked at. Throws ConfigError naming flag, variable or key; and as read_config_file() does.
bool read_options(OptionTable& table, const Invocation& invocation, const std::string& verb,
                  std::span<const VerbTable> verbs);

}  // namespace prenorm::cli
