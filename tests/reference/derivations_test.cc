// The derivation pages quote the textbook's lines: every quoted line stands in the file that is
// named beside it, and every page quotes some.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace prenorm::reference {
namespace {

const std::filesystem::path kRoot = PRENORM_SOURCE_DIR;

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// Without white space, so that a line broken by the formatter is still the line that is quoted.
std::string squeezed(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c != ' ' && c != '\n') out += c;
  }
  return out;
}

// `\|`, which stands for | in a table, as |.
std::string unescaped(std::string text) {
  for (std::size_t at = text.find("\\|"); at != std::string::npos; at = text.find("\\|")) {
    text.erase(at, 1);
  }
  return text;
}

TEST(Derivations, every_quoted_line_stands_in_its_file) {
  int pages = 0;
  for (const auto& page : std::filesystem::directory_iterator(kRoot / "docs" / "derivations")) {
    if (page.path().filename() == "README.md") continue;
    int quoted = 0;
    std::istringstream lines(read(page.path()));
    for (std::string line; std::getline(lines, line);) {
      const std::size_t begin = line.find(" | `"), end = line.rfind("` | prenorm/");
      if (begin == std::string::npos || end == std::string::npos) continue;
      const std::string code = unescaped(line.substr(begin + 4, end - begin - 4));
      const std::string file = line.substr(end + 4, line.rfind(" |") - end - 4);
      const std::string source = squeezed(read(kRoot / file));
      EXPECT_NE(source.find(squeezed(code)), std::string::npos)
          << page.path().filename() << ": " << file << " has no line " << code;
      ++quoted;
    }
    EXPECT_GE(quoted, 3) << page.path();
    ++pages;
  }
  EXPECT_EQ(pages, 8);
}

}  // namespace
}  // namespace prenorm::reference
