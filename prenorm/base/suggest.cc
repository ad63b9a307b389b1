#include "prenorm/base/suggest.h"

#include <algorithm>
#include <vector>

namespace prenorm {

int edit_distance(std::string_view a, std::string_view b) {
  const std::size_t width = b.size() + 1;
  std::vector<int> before(width), above(width), row(width);
  for (std::size_t j = 0; j < width; ++j) above[j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<int>(i);
    for (std::size_t j = 1; j < width; ++j) {
      const int change = a[i - 1] == b[j - 1] ? 0 : 1;
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    std::swap(before, above);
    std::swap(above, row);
  }
  return above[b.size()];
}

std::string nearest_name(std::string_view given, std::span<const std::string> known) {
  // A longer word may hold more slips; a distance of half the word is another word.
  constexpr std::size_t kLongest = 64;
  if (given.empty() || given.size() > kLongest) return "";
  int best = std::min(3, static_cast<int>(given.size() + 1) / 3) + 1;
  std::string name;
  for (const std::string& candidate : known) {
    const int distance = edit_distance(given, candidate);
    if (distance < best) {
      best = distance;
      name = candidate;
    }
  }
  if (!name.empty()) return name;
  // A name cut short or with a word too many: the shortest known name that begins alike.
  for (const std::string& candidate : known) {
    const std::string_view shorter = given.size() < candidate.size() ? given : candidate;
    const std::string_view longer = given.size() < candidate.size() ? candidate : given;
    if (shorter.size() >= 3 && longer.starts_with(shorter) &&
        (name.empty() || candidate.size() < name.size())) {
      name = candidate;
    }
  }
  return name;
}

std::string did_you_mean(std::string_view given, std::span<const std::string> known,
                         std::string_view prefix) {
  const std::string name = nearest_name(given, known);
  if (name.empty()) return "";
  return "; did you mean " + std::string(prefix) + name + "?";
}

}  // namespace prenorm
