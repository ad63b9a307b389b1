#include "prenorm/cli/config_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "prenorm/base/error.h"
#include "prenorm/base/suggest.h"
#include "prenorm/base/utf8.h"
#include "prenorm/cli/message.h"
#include "prenorm/formats/toml.h"

namespace prenorm::cli {
namespace {

const char* type_name(const TomlValue& value) {
  constexpr std::array<const char*, 5> kNames = {
      "a boolean", "an integer", "a floating-point number", "a string", "an array of strings"};
  return kNames[value.index()];
}

std::string type_expected(const Option& option) {
  switch (option.type) {
    case ValueType::kInteger:
      return "an integer";
    case ValueType::kReal:
      return "a number";
    case ValueType::kBoolean:
      return "true or false";
    case ValueType::kText:
      break;
  }
  return option.many ? "a string or an array of strings" : "a string";
}

// The value as the command line would hold it; nothing where its type is not the option's.
std::vector<std::string> texts_of(const TomlValue& value, const Option& option) {
  const ValueType type = option.type;
  if (const auto* truth = std::get_if<bool>(&value)) {
    if (type == ValueType::kBoolean) return {*truth ? "true" : "false"};
  } else if (const auto* integer = std::get_if<std::int64_t>(&value)) {
    if (type == ValueType::kInteger || type == ValueType::kReal) return {std::to_string(*integer)};
  } else if (const auto* real = std::get_if<double>(&value)) {
    if (type == ValueType::kReal) return {number_text(*real)};
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    if (type == ValueType::kText) return {*text};
  } else if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) {
    if (type == ValueType::kText && option.many) return *texts;
  }
  return {};
}

// The option of a key, which must be one of the table's.
Option& find_option(OptionTable& table, const std::string& key, const std::string& what) {
  std::string name = key;
  std::replace(name.begin(), name.end(), '_', '-');
  std::vector<std::string> known;
  for (Option& option : table.options()) {
    if (option.name == "config") continue;  // a file does not name another
    if (option.name == name) return option;
    known.push_back(toml_key(option.name));
  }
  throw ConfigError(what + ": expected a known key, found " + in_quotes(key) +
                    did_you_mean(key, known));
}

}  // namespace

std::vector<GivenValue> read_config_file(OptionTable& table, const std::string& path,
                                         const std::string& verb,
                                         std::span<const VerbTable> verbs) {
  std::vector<GivenValue> top, own;
  for (const auto& [full_key, entry] : load_toml(path)) {
    const std::string what =
        fmt::format("{}:{}: {}", printable(path), entry.line, printable(full_key));
    const std::size_t dot = full_key.find('.');
    const std::string section = dot == std::string::npos ? "" : full_key.substr(0, dot);
    const auto owner = std::find_if(verbs.begin(), verbs.end(),
                                    [&](const VerbTable& other) { return other.verb == section; });
    const bool in_section = owner != verbs.end();
    const std::string key = in_section ? full_key.substr(dot + 1) : full_key;
    const bool foreign = in_section && section != verb;
    Option& option = find_option(foreign ? *owner->table : table, key, what);
    if (foreign) continue;
    GivenValue value{&option, texts_of(entry.value, option), what};
    if (value.texts.empty()) {
      throw ConfigError(fmt::format("{}: expected {}, found {}", what, type_expected(option),
                                    type_name(entry.value)));
    }
    (in_section ? own : top).push_back(std::move(value));
  }
  top.insert(top.end(), own.begin(), own.end());  // the verb's own table is the more particular
  return top;
}

}  // namespace prenorm::cli
