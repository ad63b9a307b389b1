#include "prenorm/cli/option_reader.h"

#include <algorithm>
#include <cstdlib>

#include "prenorm/base/error.h"
#include "prenorm/base/suggest.h"
#include "prenorm/base/utf8.h"
#include "prenorm/cli/message.h"

namespace prenorm::cli {
namespace {

Option* find_by_variable(OptionTable& table, const std::string& variable) {
  for (Option& option : table.options()) {
    if (environment_name(option.name) == variable) return &option;
  }
  return nullptr;
}

bool some_verb_knows(std::span<const VerbTable> verbs, const std::string& variable) {
  for (const VerbTable& verb : verbs) {
    for (const Option& option : verb.table->options()) {
      if (environment_name(option.name) == variable) return true;
    }
  }
  return false;
}

void assign(const GivenValue& value) {
  for (const std::string& text : value.texts) {
    if (text.find('\0') != std::string::npos) {
      throw ConfigError(value.what + ": expected text without NUL, found " + in_quotes(text));
    }
  }
  if (!value.option->assign(value.texts)) {
    throw ConfigError(value.what + ": expected " + value.option->expected + ", found " +
                      in_quotes(value.texts.back()));
  }
  value.option->given = value.texts;
}

const GivenValue* find_value(const std::vector<GivenValue>& values, const std::string& option) {
  for (const GivenValue& value : values) {
    if (value.option->name == option) return &value;
  }
  return nullptr;
}

}  // namespace

std::vector<GivenValue> read_environment(OptionTable& table, std::span<const Variable> variables,
                                         std::span<const VerbTable> verbs) {
  std::vector<GivenValue> values;
  for (const auto& [name, text] : variables) {
    if (Option* option = find_by_variable(table, name)) {
      values.push_back({option, {text}, name});
    } else if (!some_verb_knows(verbs, name)) {
      std::vector<std::string> known;
      for (const Option& candidate : table.options()) {
        known.push_back(environment_name(candidate.name));
      }
      throw ConfigError(printable(name) + ": expected the variable of a known option, found " +
                        in_quotes(name) + did_you_mean(name, known));
    }
  }
  return values;
}

bool read_options(OptionTable& table, const Invocation& invocation, const std::string& verb,
                  std::span<const VerbTable> verbs) {
  bool help = false;
  const std::vector<GivenValue> flags = read_arguments(table, invocation.arguments, help);
  if (help) return false;
  const std::vector<GivenValue> variables = read_environment(table, invocation.environment, verbs);
  std::vector<GivenValue> file;
  const GivenValue* config = find_value(flags, "config");
  if (config == nullptr) config = find_value(variables, "config");
  if (config != nullptr) file = read_config_file(table, config->texts.back(), verb, verbs);
  // Every value is checked, the overruled ones too; the strongest source comes last.
  for (const std::vector<GivenValue>* source : {&std::as_const(file), &variables, &flags}) {
    for (const GivenValue& value : *source) assign(value);
  }
  return true;
}

}  // namespace prenorm::cli
