#include "prenorm/cli/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace prenorm::cli {

std::string grouped(Index value) {
  std::string digits = std::to_string(value < 0 ? -value : value);
  for (std::size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, ",");
  return (value < 0 ? "-" : "") + digits;
}

namespace {

// The number and its unit, "8.1" and "k".
std::pair<std::string, std::string> scaled(double value) {
  constexpr std::array<const char*, 6> kUnits = {"", "k", "M", "G", "T", "P"};
  if (!(value >= 1000.0)) return {fmt::format("{:.0f}", value), ""};
  std::size_t unit = 0;
  // 0.80M reads better than 800k where millions are meant.
  while (value >= 500e3 || (unit == 0 && value >= 1000.0) || (unit > 0 && value >= 500.0)) {
    if (unit + 1 == kUnits.size()) break;
    value /= 1000.0;
    ++unit;
  }
  const int decimals = value < 1.0 ? 2 : value < 100.0 ? 1 : 0;
  return {fmt::format("{:.{}f}", value, decimals), kUnits[unit]};
}

}  // namespace

std::string short_count(double value) {
  const auto [number, unit] = scaled(value);
  return number + unit;
}

std::string flops_text(double value) {
  const auto [number, unit] = scaled(value);
  return number + " " + unit + "FLOP";
}

std::string bytes_text(std::size_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "kB", "MB", "GB", "TB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 999.5 && unit + 1 < kUnits.size()) {
    value /= 1000.0;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", value, unit > 0 && value < 10.0 ? 1 : 0, kUnits[unit]);
}

std::string duration_text(double seconds) {
  constexpr double kLongest = 1e9;
  if (!(seconds >= 0.0)) seconds = 0.0;
  const auto total = static_cast<Index>(std::llround(std::min(seconds, kLongest)));
  const Index days = total / 86400, hours = total / 3600 % 24, minutes = total / 60 % 60;
  if (days > 0) return fmt::format("{} d {}:{:02}:{:02}", days, hours, minutes, total % 60);
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes, total % 60);
  return fmt::format("{}:{:02}", minutes, total % 60);
}

std::string scientific_text(double value) {
  std::string text = fmt::format("{:.1e}", value);
  const std::size_t exponent = text.find('e');
  if (exponent == std::string::npos) return text;
  // C writes at least two digits of the exponent: 6.0e-04.
  const std::size_t digits = exponent + 2;
  while (digits + 1 < text.size() && text[digits] == '0') text.erase(digits, 1);
  if (text[exponent + 1] == '+') text.erase(exponent + 1, 1);
  return text;
}

}  // namespace prenorm::cli
