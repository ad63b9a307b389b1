// JSON, read strictly and written the same byte for byte every time; a thin layer over
// nlohmann-json. Include this header from .cc files only: the library's other headers stay free of
// nlohmann-json.
//
//   const Json config = parse_json(read_file(path), path.string());
//   write_file_durably(path, dump_json(config));
#pragma once
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace prenorm {

// Keys keep the order in which they were read or added. Looking a key up walks the object: go
// through a large one with items().
using Json = nlohmann::ordered_json;

struct JsonLimits {
  std::size_t bytes = 256u << 20;
  int depth = 64;  // objects and arrays inside each other
};

// One JSON value and nothing after it. Refused beside what the grammar refuses: a key twice in an
// object, nesting beyond the limit, text beyond the limit, strings that are not UTF-8.
// Throws FormatError `NAME: expected ..., found ... at byte N`.
Json parse_json(std::string_view text, std::string_view name, const JsonLimits& limits = {});

// Two spaces a level and a final newline, as transformers writes its files. Numbers are the
// shortest text that reads back to the same double; text that is not UTF-8 gets U+FFFD.
std::string dump_json(const Json& value);

// On one line without spaces or newline.
std::string dump_json_compact(const Json& value);

}  // namespace prenorm
