#include "prenorm/cli/message.h"

#include "prenorm/base/utf8.h"

namespace prenorm::cli {

std::string in_quotes(std::string_view text) { return "'" + printable(text) + "'"; }

std::string_view prefix_of_characters(std::string_view text, std::size_t limit) {
  if (text.size() <= limit) return text;
  const std::string_view prefix = text.substr(0, limit);
  return prefix.substr(0, limit - incomplete_utf8_suffix(prefix));
}

std::string error_lines(std::string_view message) {
  constexpr std::size_t kLongestLine = 300;
  const std::string whole = "prenorm: " + std::string(message);
  std::string out;
  std::string_view rest = whole;
  while (!rest.empty()) {
    const std::size_t end = rest.find("\n  ");
    std::string line = printable(rest.substr(0, end), 4 * kLongestLine);
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    if (line.size() > kLongestLine) {
      line = std::string(prefix_of_characters(line, kLongestLine - 3)) + "...";
    }
    out += line + "\n";
  }
  return out;
}

}  // namespace prenorm::cli
