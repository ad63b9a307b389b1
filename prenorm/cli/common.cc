#include "prenorm/cli/common.h"

#include <cmath>

#include "prenorm/base/error.h"
#include "prenorm/base/utf8.h"
#include "prenorm/cli/message.h"
#include "prenorm/kernels/adamw.h"
#include "prenorm/model/config_json.h"

namespace prenorm::cli {

void CommonFlags::declare_machine(OptionTable& table) {
  constexpr int kMostThreads = 4096;
  table.group("Machine");
  table
      .integer("threads", threads, {0, kMostThreads},
               "threads to compute with; the results do not depend on it")
      .shown_default("0: all that this process may use");
  table.text("isa", isa, "NAME",
             "instruction set: auto, avx2, avx512 or neon; the results do not depend on it");
}

void CommonFlags::declare_output(OptionTable& table, std::string json_help) {
  table.flag("json", json, std::move(json_help));
  table.text("config", config, "FILE", "TOML file with values for these flags");
}

void require_given(const std::string& value, const char* flag, const char* what) {
  if (value.empty()) throw ConfigError(std::string(flag) + ": expected " + what + ", found none");
}

void require_finite(const Runtime& run, const Gpt& model, const std::string& folder) {
  for (const Parameter& parameter : model.parameters()) {
    // In double no square of a float is infinite.
    if (std::isfinite(kernels::sum_of_squares(run, parameter.value))) continue;
    throw NumericalError(printable(folder) +
                         ": expected finite weights, found NaN or infinity in '" +
                         printable(parameter.name) + "'");
  }
}

LoadedModel load_model(const Runtime& run, const std::string& folder, TokenizerUse use,
                       WeightMemory memory) {
  if (folder.empty()) throw ConfigError("-m: expected a model folder, found none");
  LoadedModel loaded;
  try {
    loaded.model = load_pretrained(folder, Gpt::Mode::kInference, &run, memory);
  } catch (const ConfigError& error) {
    throw FormatError(printable(folder) + ": " + error.what());  // the folder's fault, not a flag's
  }
  require_finite(run, *loaded.model, folder);
  loaded.eos_tokens = load_eos_token_ids(folder);
  if (use == TokenizerUse::kUnread) return loaded;
  if (use == TokenizerUse::kOptional && !has_tokenizer(folder)) return loaded;
  loaded.tokenizer = load_tokenizer(folder);
  if (loaded.tokenizer->vocab_size() > loaded.model->config().vocab_size) {
    throw FormatError(printable(folder) + ": expected a tokenizer of at most the model's " +
                      std::to_string(loaded.model->config().vocab_size) + " tokens, found " +
                      std::to_string(loaded.tokenizer->vocab_size()));
  }
  return loaded;
}

}  // namespace prenorm::cli
