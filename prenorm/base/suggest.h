// "Did you mean": the known name nearest to a mistyped one.
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace prenorm {

// The fewest insertions, deletions, substitutions and swaps of neighbours between two words.
int edit_distance(std::string_view a, std::string_view b);

// The nearest of `known`, or empty where none is near enough to be what was meant. The first of
// equally near names wins.
std::string nearest_name(std::string_view given, std::span<const std::string> known);

// "; did you mean NAME?" with `prefix` before the name, or nothing.
std::string did_you_mean(std::string_view given, std::span<const std::string> known,
                         std::string_view prefix = "");

}  // namespace prenorm
