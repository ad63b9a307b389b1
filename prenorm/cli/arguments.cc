#include "prenorm/cli/arguments.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "prenorm/base/error.h"
#include "prenorm/base/suggest.h"
#include "prenorm/base/utf8.h"
#include "prenorm/cli/message.h"

namespace prenorm::cli {
namespace {

constexpr int kAnyNumber = 1 << 20;

// "-m,--model", with a second spelling where the name has a dash.
std::string spellings(const Option& option) {
  std::string names = "--" + option.name;
  const std::string key = toml_key(option.name);
  if (key != option.name) names += ",--" + key;
  if (option.letter != 0) names += std::string(",-") + option.letter;
  if (option.negatable) {
    names += ",!--no-" + option.name;
    if (key != option.name) names += ",!--no_" + key;
  }
  return names;
}

std::string flag_text(const Option& option) { return "--" + option.name; }

// A word of a switch's that changes nothing ("--resume auto") is dropped, so that it is not
// taken for an argument.
void drop_optional_words(const OptionTable& table, std::vector<std::string>& arguments) {
  for (const Option& option : table.options()) {
    if (option.optional_word.empty()) continue;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      std::string& word = arguments[i];
      if (word == "--") break;
      if (word == flag_text(option) + "=" + option.optional_word) word = flag_text(option);
      if (word == flag_text(option) && i + 1 < arguments.size() &&
          arguments[i + 1] == option.optional_word) {
        arguments.erase(arguments.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      }
    }
  }
}

[[noreturn]] void refuse_unknown(const OptionTable& table, const std::string& word) {
  const std::string flag = word.substr(0, word.find('='));
  if (!flag.starts_with('-')) {
    throw ConfigError("argument: expected flags only, found " + in_quotes(word));
  }
  std::string bare = flag.substr(
      flag.find_first_not_of('-') == std::string::npos ? flag.size() : flag.find_first_not_of('-'));
  std::replace(bare.begin(), bare.end(), '_', '-');
  throw ConfigError(printable(flag) + ": expected a known flag, found " + in_quotes(flag) +
                    did_you_mean(bare, flag_names(table), "--"));
}

// Options that need a value and are last, or are followed by nothing.
void refuse_missing_values(const OptionTable& table, const std::vector<std::string>& arguments) {
  if (arguments.empty()) return;
  const std::string& last = arguments.back();
  if (std::find(arguments.begin(), arguments.end(), "--") != arguments.end()) return;
  for (const Option& option : table.options()) {
    if (option.value_name.empty()) continue;
    const bool is_last = last == flag_text(option) || last == "--" + toml_key(option.name) ||
                         (option.letter != 0 && last == std::string("-") + option.letter);
    if (is_last) {
      throw ConfigError(last + ": expected " + option.expected +
                        " after it, found the end of the command line");
    }
  }
}

}  // namespace

std::vector<std::string> flag_names(const OptionTable& table) {
  std::vector<std::string> names;
  for (const Option& option : table.options()) {
    names.push_back(option.name);
    if (option.negatable) names.push_back("no-" + option.name);
  }
  names.emplace_back("help");
  return names;
}

std::vector<GivenValue> read_arguments(OptionTable& table, std::vector<std::string> arguments,
                                       bool& help) {
  drop_optional_words(table, arguments);
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  CLI::Option* help_flag = app.add_flag("-h,--help");
  std::vector<std::pair<Option*, CLI::Option*>> known;
  for (Option& option : table.options()) {
    CLI::Option* parsed = nullptr;
    if (option.value_name.empty()) {
      parsed = app.add_flag(spellings(option));
      parsed->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    } else {
      parsed = app.add_option(spellings(option));
      parsed->multi_option_policy(option.many ? CLI::MultiOptionPolicy::TakeAll
                                              : CLI::MultiOptionPolicy::TakeLast);
      if (option.many) parsed->expected(1, kAnyNumber);
    }
    known.emplace_back(&option, parsed);
  }
  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
    app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    refuse_missing_values(table, arguments);
    throw ConfigError("arguments: expected flags and their values, found: " +
                      printable(error.what()));
  }
  help = help_flag->count() > 0;
  if (help) return {};

  std::vector<GivenValue> values;
  for (auto& [option, parsed] : known) {
    if (parsed->count() == 0) continue;
    std::vector<std::string> texts = parsed->results();
    const bool off = option->negatable && texts.back() == "false";
    values.push_back({option, std::move(texts), (off ? "--no-" : "--") + option->name});
  }
  // What is left: arguments that are no flags, and flags that are not known.
  std::vector<std::string> rest;
  bool flags_may_follow = true;
  for (const std::string& word : app.remaining()) {
    if (flags_may_follow && word == "--") {
      flags_may_follow = false;
    } else if (flags_may_follow && word.size() > 1 && word[0] == '-') {
      refuse_unknown(table, word);
    } else {
      rest.push_back(word);
    }
  }
  if (rest.empty()) return values;
  for (Option& option : table.options()) {
    if (!option.positional) continue;
    for (GivenValue& value : values) {
      if (value.option == &option) {
        value.texts.insert(value.texts.begin(), rest.begin(), rest.end());
        return values;
      }
    }
    values.push_back({&option, std::move(rest), "--" + option.name});
    return values;
  }
  refuse_unknown(table, rest.front());
}

}  // namespace prenorm::cli
