#include "prenorm/cli/numbers.h"

#include <array>
#include <charconv>

namespace prenorm::cli {
namespace {

template <typename T>
std::optional<T> parse_whole(std::string_view text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

}  // namespace

std::optional<std::int64_t> parse_integer(std::string_view text) {
  return parse_whole<std::int64_t>(text);
}

std::optional<std::uint64_t> parse_unsigned(std::string_view text) {
  return parse_whole<std::uint64_t>(text);
}

std::optional<double> parse_real(std::string_view text) { return parse_whole<double>(text); }

std::optional<bool> parse_boolean(std::string_view text) {
  constexpr std::array<std::string_view, 4> kTrue = {"true", "yes", "on", "1"};
  constexpr std::array<std::string_view, 4> kFalse = {"false", "no", "off", "0"};
  for (std::string_view word : kTrue) {
    if (text == word) return true;
  }
  for (std::string_view word : kFalse) {
    if (text == word) return false;
  }
  return std::nullopt;
}

}  // namespace prenorm::cli
