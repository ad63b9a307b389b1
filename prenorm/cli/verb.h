// A verb of the program: its options and what it does.
#pragma once
#include <memory>
#include <span>
#include <string_view>

#include "prenorm/cli/option_table.h"
#include "prenorm/cli/output.h"

namespace prenorm::cli {

enum ExitCode : int {
  kDone = 0,
  kDiffers = 1,  // a check failed
  kUsage = 2,
  kBadInput = 3,
  kNumerical = 4,
  kInterrupted = 130,
};

struct Streams {
  Output& out;  // results
  Output& log;  // progress and notices
};

class Verb {
 public:
  virtual ~Verb() = default;
  // The options, with their defaults, bound to this object.
  virtual void declare(OptionTable& table) = 0;
  // Runs with the options as they were read; `table` tells which of them were given. Returns an
  // exit code, or throws one of the library's errors.
  virtual int run(const OptionTable& table, const Streams& streams) = 0;
};

struct VerbEntry {
  std::string_view name;
  std::string_view summary;  // "trains a model on text"
  std::string_view usage;    // "prenorm train FILE… [flags]"
  std::string_view example;
  std::unique_ptr<Verb> (*make)();
};

std::span<const VerbEntry> all_verbs();

}  // namespace prenorm::cli
