// The options of one verb: one table that the command line, the environment, the configuration
// file and the help page are all read from. An option is bound to the variable that it sets; the
// variable's value at declaration is the default.
//
//   OptionTable table;
//   table.group("Model");
//   table.integer("n-layer", config.n_layer, {1, 1000}, "Transformer blocks");
//   table.toggle("bias", config.bias, "biases in linear layers and norms");   // --bias/--no-bias
//
// "learning-rate" is --learning-rate (or --learning_rate), PRENORM_LEARNING_RATE and the TOML key
// learning_rate.
#pragma once
#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "prenorm/cli/numbers.h"

namespace prenorm::cli {

struct IntegerRange {
  std::int64_t min = std::numeric_limits<std::int64_t>::min();
  std::int64_t max = std::numeric_limits<std::int64_t>::max();
};
struct RealRange {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool above_min = false;  // min itself is out
};

// How a value is written in a TOML file.
enum class ValueType { kInteger, kReal, kBoolean, kText };

struct Option {
  std::string name;
  char letter = 0;  // 'm' for -m
  ValueType type = ValueType::kText;
  bool many = false;          // takes several values
  bool negatable = false;     // --bias and --no-bias
  bool positional = false;    // also read from arguments that are no flags
  std::string optional_word;  // a word that may follow a switch and changes nothing
  std::string value_name;     // "N" in --n-layer N; empty for switches
  std::string default_text;
  std::string help;
  std::string group;
  std::string expected;                                         // "a whole number of at least 1"
  std::function<bool(const std::vector<std::string>&)> assign;  // false: not what is expected
  // What the command line, the environment or the file gave; empty: none of them did.
  std::vector<std::string> given;

  Option& short_name(char c) { return letter = c, *this; }
  Option& shown_default(std::string text) { return default_text = std::move(text), *this; }
  Option& from_positionals() { return positional = true, *this; }
  Option& may_be_followed_by(std::string word) { return optional_word = std::move(word), *this; }
};

class OptionTable {
 public:
  void group(std::string title) { group_ = std::move(title); }

  template <std::integral T>
  Option& integer(std::string name, T& value, IntegerRange range, std::string help) {
    return add(std::move(name), ValueType::kInteger, "N", std::to_string(value),
               describe(narrowed<T>(range)), std::move(help),
               [&value, limits = narrowed<T>(range)](const std::vector<std::string>& texts) {
                 const auto parsed = parse_integer(texts.back());
                 if (!parsed || *parsed < limits.min || *parsed > limits.max) return false;
                 value = static_cast<T>(*parsed);
                 return true;
               });
  }
  Option& seed(std::string name, std::uint64_t& value, std::string help);
  Option& real(std::string name, double& value, RealRange range, std::string help);
  Option& text(std::string name, std::string& value, std::string value_name, std::string help);
  Option& texts(std::string name, std::vector<std::string>& values, std::string value_name,
                std::string help);
  Option& choice(std::string name, std::string& value, std::vector<std::string> words,
                 std::string help);
  // A switch: false until given.
  Option& flag(std::string name, bool& value, std::string help);
  // A switch in two directions: --NAME and --no-NAME.
  Option& toggle(std::string name, bool& value, std::string help);

  std::vector<Option>& options() { return options_; }
  const std::vector<Option>& options() const { return options_; }
  const Option* find(std::string_view name) const;
  bool given(std::string_view name) const;
  // Assigns what was given once more, over variables that have been set to something else since.
  void apply_given() const;

 private:
  Option& add(std::string name, ValueType type, std::string value_name, std::string default_text,
              std::string expected, std::string help,
              std::function<bool(const std::vector<std::string>&)> assign);
  static std::string describe(const IntegerRange& range);
  static std::string describe(const RealRange& range);

  template <std::integral T>
  static IntegerRange narrowed(IntegerRange range) {
    if constexpr (sizeof(T) < sizeof(std::int64_t)) {
      range.min = std::max<std::int64_t>(range.min, std::numeric_limits<T>::min());
      range.max = std::min<std::int64_t>(range.max, std::numeric_limits<T>::max());
    }
    return range;
  }

  std::string group_;
  std::vector<Option> options_;
};

// "n-layer" → "PRENORM_N_LAYER" and "n_layer".
std::string environment_name(std::string_view option);
std::string toml_key(std::string_view option);

// A number as people write it: 0.001 is 0.001, 6e-05 is 6e-05.
std::string number_text(double value);

}  // namespace prenorm::cli
