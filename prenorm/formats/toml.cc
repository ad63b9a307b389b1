#include "prenorm/formats/toml.h"

#include <toml++/toml.h>

#include <algorithm>
#include <utility>

#include "prenorm/base/error.h"
#include "prenorm/base/file.h"
#include "prenorm/base/utf8.h"

namespace prenorm {
namespace {

constexpr std::size_t kSizeLimit = 1u << 20;
constexpr std::size_t kDotLimit = 1000;
constexpr std::size_t kLongestKey = 256;  // with the names of the tables around it
constexpr int kDeepest = 64;

int line_of(const toml::node& node) { return static_cast<int>(node.source().begin.line); }

std::string place(std::string_view name, int line) {
  return std::string(name) + ":" + std::to_string(line) + ": ";
}

// Dots outside of strings and comments. Each may open a table, and tables inside each other are
// walked and freed recursively, so their number bounds the stack. Where the text is not TOML the
// count may be wrong, but only from there on, and the parser does not go on from there.
std::size_t count_dots(std::string_view text) {
  std::size_t dots = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '.') ++dots;
    if (c == '#') at = std::min(text.find('\n', at), text.size());
    if (c != '"' && c != '\'') continue;
    const std::string triple(3, c);
    const bool multiline = text.substr(at).starts_with(triple);
    const std::string_view quote = multiline ? std::string_view(triple) : text.substr(at, 1);
    for (at += quote.size(); at < text.size() && !text.substr(at).starts_with(quote); ++at) {
      if (text[at] == '\\' && c == '"') ++at;
      if (!multiline && at < text.size() && text[at] == '\n') break;
    }
    // A multi-line string may end in up to two quotes of its own before the three.
    at += quote.size() - 1;
    while (multiline && at + 1 < text.size() && text[at + 1] == c) ++at;
  }
  return dots;
}

class Flattener {
 public:
  explicit Flattener(std::string_view name) : name_(name) {}

  void add(const toml::table& table, const std::string& prefix, int depth = 1) {
    for (const auto& [key, node] : table) {
      // Long names around many keys would multiply.
      if (prefix.size() + key.str().size() > kLongestKey) {
        throw FormatError(place(name_, line_of(node)) + "expected keys of at most " +
                          std::to_string(kLongestKey) + " bytes, found a longer one");
      }
      const std::string full = prefix + std::string(key.str());
      if (const toml::table* inner = node.as_table()) {
        if (depth >= kDeepest) refuse(full, node, "tables at most 64 deep");
        add(*inner, full + ".", depth + 1);
      } else {
        entries_.insert_or_assign(full, TomlEntry{value(full, node), line_of(node)});
      }
    }
  }

  TomlEntries take() { return std::move(entries_); }

 private:
  TomlValue value(const std::string& key, const toml::node& node) const {
    if (const auto* v = node.as_boolean()) return v->get();
    if (const auto* v = node.as_integer()) return v->get();
    if (const auto* v = node.as_floating_point()) return v->get();
    if (const auto* v = node.as_string()) return v->get();
    if (const auto* array = node.as_array()) {
      std::vector<std::string> strings;
      for (const toml::node& item : *array) {
        if (!item.is_string()) refuse(key, item, "strings in the array");
        strings.push_back(item.as_string()->get());
      }
      return strings;
    }
    refuse(key, node, "a number, a string, true, false or an array of strings");
  }

  [[noreturn]] void refuse(const std::string& key, const toml::node& node,
                           std::string_view expected) const {
    const std::string_view found = node.is_array()     ? "an array"
                                   : node.is_table()   ? "a table"
                                   : node.is_string()  ? "a string"
                                   : node.is_number()  ? "a number"
                                   : node.is_boolean() ? "true or false"
                                                       : "a date or a time";
    throw FormatError(place(name_, line_of(node)) + printable(key) + ": expected " +
                      std::string(expected) + ", found " + std::string(found));
  }

  std::string_view name_;
  TomlEntries entries_;
};

}  // namespace

TomlEntries parse_toml(std::string_view text, std::string_view name) {
  if (text.size() > kSizeLimit) {
    throw FormatError(std::string(name) + ": expected at most " + std::to_string(kSizeLimit) +
                      " bytes of TOML, found " + std::to_string(text.size()));
  }
  if (count_dots(text) > kDotLimit) {
    throw FormatError(std::string(name) + ": expected at most " + std::to_string(kDotLimit) +
                      " dots outside of strings, found more");
  }
  try {
    const toml::table table = toml::parse(text);
    Flattener flattener(name);
    flattener.add(table, "");
    return flattener.take();
  } catch (const toml::parse_error& error) {
    throw FormatError(place(name, static_cast<int>(error.source().begin.line)) +
                      "expected TOML, found an error: " + printable(error.description(), 160));
  }
}

TomlEntries load_toml(const std::filesystem::path& path) {
  return parse_toml(read_file(path, kSizeLimit), path.string());
}

}  // namespace prenorm
