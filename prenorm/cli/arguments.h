// The command line of one verb. CLI11 takes the words apart; what they mean is the table's.
#pragma once
#include <string>
#include <vector>

#include "prenorm/cli/option_table.h"

namespace prenorm::cli {

// The values one source gives: an option's texts, and how to call it in a message.
struct GivenValue {
  Option* option;
  std::vector<std::string> texts;
  std::string what;  // "--n-layer", "PRENORM_N_LAYER", "run.toml:3: n_layer"
};

// Throws ConfigError for flags that are unknown or lack a value. Sets `help` where it is asked for.
std::vector<GivenValue> read_arguments(OptionTable& table, std::vector<std::string> arguments,
                                       bool& help);

// Every way to write the table's flags, without dashes: "bias" and "no-bias".
std::vector<std::string> flag_names(const OptionTable& table);

}  // namespace prenorm::cli
