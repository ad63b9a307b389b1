// What several verbs share: flags of the machine, and reading a model folder.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "prenorm/cli/option_table.h"
#include "prenorm/kernels/runtime.h"
#include "prenorm/model/checkpoint.h"
#include "prenorm/model/gpt.h"
#include "prenorm/text/tokenizer.h"

namespace prenorm::cli {

struct CommonFlags {
  int threads = 0;
  std::string isa = "auto";
  std::string config;
  bool json = false;

  void declare_machine(OptionTable& table);
  // --json (with what it prints) and --config.
  void declare_output(OptionTable& table, std::string json_help);
  Runtime::Options runtime() const { return {.threads = threads, .isa = isa}; }
};

// Throws ConfigError, "FLAG: expected WHAT, found none", for a flag that was not given.
void require_given(const std::string& value, const char* flag, const char* what);

// A model folder, ready to run.
struct LoadedModel {
  std::unique_ptr<Gpt> model;
  std::unique_ptr<Tokenizer> tokenizer;
  std::vector<TokenId> eos_tokens;
};

// kOptional: null where the folder has none; kUnread: null always.
enum class TokenizerUse { kRequired, kOptional, kUnread };

// Throws ConfigError where `folder` is empty (no -m), IoError and FormatError for what is wrong
// with the folder, NumericalError for weights that are not finite.
LoadedModel load_model(const Runtime& run, const std::string& folder,
                       TokenizerUse use = TokenizerUse::kRequired,
                       WeightMemory memory = WeightMemory::kOwn);

// The tensor that holds a number that is not finite, as NumericalError.
void require_finite(const Runtime& run, const Gpt& model, const std::string& folder);

}  // namespace prenorm::cli
