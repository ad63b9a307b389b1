// The TOML file of --config.
//
//   threads = 2          # at the top: an option of the verb that runs
//   [train]              # in a table of a verb's name: an option of that verb
//   n_layer = 6
#pragma once
#include <span>
#include <string>
#include <vector>

#include "prenorm/cli/arguments.h"

namespace prenorm::cli {

// One verb's table by name, for the sections and variables that are meant for another verb.
struct VerbTable {
  std::string verb;
  OptionTable* table;
};

// The values for `verb`; those of its own section come after those at the top. Sections of other
// verbs are checked for their keys and passed over. Throws IoError, FormatError (no TOML) and
// ConfigError (an unknown key, a value of the wrong type).
std::vector<GivenValue> read_config_file(OptionTable& table, const std::string& path,
                                         const std::string& verb, std::span<const VerbTable> verbs);

}  // namespace prenorm::cli
