// Fills a verb's options from the command line, the environment and a TOML file, in that order of
// precedence.
#pragma once
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "prenorm/cli/option_table.h"

namespace prenorm::cli {

// A name and its value, as in the environment.
using Variable = std::pair<std::string, std::string>;

// What one run of the program was given.
struct Invocation {
  std::vector<std::string> arguments;  // after the verb
  std::vector<Variable> environment;   // those that begin with PRENORM_
};

// One verb's table by name, for the tables and variables that are meant for another verb.
struct VerbTable {
  std::string verb;
  OptionTable* table;
};

// The values one source gives: an option's texts, and how to call it in a message.
struct GivenValue {
  Option* option;
  std::vector<std::string> texts;
  std::string what;  // "--n-layer", "PRENORM_N_LAYER", "run.toml: n_layer"
};

// Throws ConfigError for flags that are unknown or lack a value. Sets `help` where it is asked for.
std::vector<GivenValue> read_arguments(OptionTable& table, std::vector<std::string> arguments,
                                       bool& help);

// Variables of other verbs are passed over; throws ConfigError for one that no verb knows.
std::vector<GivenValue> read_environment(OptionTable& table, std::span<const Variable> variables,
                                         std::span<const VerbTable> verbs);

// Keys stand at the top of the file or in a table of the verb's name; tables of other verbs are
// checked and passed over. Throws IoError, FormatError (no TOML) and ConfigError (an unknown key, a
// value of the wrong type).
std::vector<GivenValue> read_config_file(OptionTable& table, const std::string& path,
                                         const std::string& verb, std::span<const VerbTable> verbs);

// The whole of it. The table must hold the text option "config" if a file is to be read. False:
// help is asked for, and nothing else was looked at. Throws as the functions above.
bool read_options(OptionTable& table, const Invocation& invocation, const std::string& verb,
                  std::span<const VerbTable> verbs);

// Every way to write the table's flags, without dashes: "bias" and "no-bias".
std::vector<std::string> flag_names(const OptionTable& table);

}  // namespace prenorm::cli
