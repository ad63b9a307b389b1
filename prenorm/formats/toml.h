// A configuration file in TOML as a flat list of keys and values: what --config FILE.toml means.
//
//   for (const auto& [key, entry] : load_toml("train.toml")) set(key, entry.value, entry.line);
//
// Keys inside tables are joined with dots ("model.n_layer").
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace prenorm {

using TomlValue = std::variant<bool, std::int64_t, double, std::string, std::vector<std::string>>;

struct TomlEntry {
  TomlValue value;
  int line = 0;  // of the key's value, from 1
};

using TomlEntries = std::map<std::string, TomlEntry>;

// Throws IoError; FormatError `PATH:LINE: expected ..., found ...` for text that is not TOML, and
// for values that no option takes (dates, arrays of anything but strings).
TomlEntries load_toml(const std::filesystem::path& path);
TomlEntries parse_toml(std::string_view text, std::string_view name);

}  // namespace prenorm
