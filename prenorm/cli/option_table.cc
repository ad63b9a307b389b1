#include "prenorm/cli/option_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace prenorm::cli {

Option& OptionTable::add(std::string name, ValueType type, std::string value_name,
                         std::string default_text, std::string expected, std::string help,
                         std::function<bool(const std::vector<std::string>&)> assign) {
  Option& option = options_.emplace_back();
  option.name = std::move(name);
  option.type = type;
  option.value_name = std::move(value_name);
  option.default_text = std::move(default_text);
  option.expected = std::move(expected);
  option.help = std::move(help);
  option.group = group_;
  option.assign = std::move(assign);
  return option;
}

std::string OptionTable::describe(const IntegerRange& range) {
  constexpr IntegerRange kAll;
  const bool below = range.min != kAll.min;
  const bool above = range.max != kAll.max;
  if (below && above) return fmt::format("a whole number from {} to {}", range.min, range.max);
  if (below) return fmt::format("a whole number of at least {}", range.min);
  if (above) return fmt::format("a whole number of at most {}", range.max);
  return "a whole number";
}

std::string OptionTable::describe(const RealRange& range) {
  const bool below = std::isfinite(range.min), above = std::isfinite(range.max);
  const char* low = range.above_min ? "above" : "of at least";
  if (below && above && !range.above_min) {
    return fmt::format("a number from {} to {}", range.min, range.max);
  }
  if (below && above) {
    return fmt::format("a number {} {} and at most {}", low, range.min, range.max);
  }
  if (below) return fmt::format("a number {} {}", low, range.min);
  if (above) return fmt::format("a number of at most {}", range.max);
  return "a finite number";
}

Option& OptionTable::seed(std::string name, std::uint64_t& value, std::string help) {
  return add(std::move(name), ValueType::kInteger, "N", std::to_string(value),
             "a whole number from 0 to 2^64 - 1", std::move(help),
             [&value](const std::vector<std::string>& texts) {
               const auto parsed = parse_unsigned(texts.back());
               if (parsed) value = *parsed;
               return parsed.has_value();
             });
}

Option& OptionTable::real(std::string name, double& value, RealRange range, std::string help) {
  return add(std::move(name), ValueType::kReal, "X", number_text(value), describe(range),
             std::move(help), [&value, range](const std::vector<std::string>& texts) {
               const auto parsed = parse_real(texts.back());
               if (!parsed || !std::isfinite(*parsed)) return false;
               if (*parsed < range.min || *parsed > range.max) return false;
               if (range.above_min && *parsed <= range.min) return false;
               value = *parsed;
               return true;
             });
}

Option& OptionTable::text(std::string name, std::string& value, std::string value_name,
                          std::string help) {
  return add(std::move(name), ValueType::kText, std::move(value_name), value, "a text",
             std::move(help), [&value](const std::vector<std::string>& texts) {
               value = texts.back();
               return true;
             });
}

Option& OptionTable::texts(std::string name, std::vector<std::string>& values,
                           std::string value_name, std::string help) {
  Option& option =
      add(std::move(name), ValueType::kText, std::move(value_name), "", "one or more texts",
          std::move(help), [&values](const std::vector<std::string>& texts) {
            values = texts;
            return true;
          });
  option.many = true;
  return option;
}

Option& OptionTable::choice(std::string name, std::string& value, std::vector<std::string> words,
                            std::string help) {
  std::string joined;
  for (const std::string& word : words) joined += (joined.empty() ? "" : "|") + word;
  std::string expected = "one of " + joined;
  return add(std::move(name), ValueType::kText, std::move(joined), value, std::move(expected),
             std::move(help),
             [&value, known = std::move(words)](const std::vector<std::string>& texts) {
               if (std::find(known.begin(), known.end(), texts.back()) == known.end()) return false;
               value = texts.back();
               return true;
             });
}

Option& OptionTable::flag(std::string name, bool& value, std::string help) {
  return add(std::move(name), ValueType::kBoolean, "", "", "true or false", std::move(help),
             [&value](const std::vector<std::string>& texts) {
               const auto parsed = parse_boolean(texts.back());
               if (parsed) value = *parsed;
               return parsed.has_value();
             });
}

Option& OptionTable::toggle(std::string name, bool& value, std::string help) {
  const std::string on = value ? "--" + name : "--no-" + name;
  Option& option = flag(std::move(name), value, std::move(help));
  option.negatable = true;
  option.default_text = on;
  return option;
}

const Option* OptionTable::find(std::string_view name) const {
  for (const Option& option : options_) {
    if (option.name == name) return &option;
  }
  return nullptr;
}

bool OptionTable::given(std::string_view name) const {
  const Option* option = find(name);
  return option != nullptr && !option->given.empty();
}

void OptionTable::apply_given() const {
  for (const Option& option : options_) {
    if (!option.given.empty()) option.assign(option.given);
  }
}

std::string environment_name(std::string_view option) {
  std::string name = "PRENORM_";
  for (char c : option) {
    name += c == '-' ? '_' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  }
  return name;
}

std::string toml_key(std::string_view option) {
  std::string key(option);
  std::replace(key.begin(), key.end(), '-', '_');
  return key;
}

std::string number_text(double value) { return fmt::format("{}", value); }

}  // namespace prenorm::cli
