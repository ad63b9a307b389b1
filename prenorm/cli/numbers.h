// Strict reading of numbers from the command line: the whole token or nothing.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

namespace prenorm::cli {

// Decimal, an optional minus sign, no blanks, no overflow.
std::optional<std::int64_t> parse_integer(std::string_view text);
std::optional<std::uint64_t> parse_unsigned(std::string_view text);

// "0.5", "1e-3", "inf", "nan": what std::from_chars reads, up to the last character.
std::optional<double> parse_real(std::string_view text);

// "true", "yes", "on", "1" and their opposites.
std::optional<bool> parse_boolean(std::string_view text);

}  // namespace prenorm::cli
