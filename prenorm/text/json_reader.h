// What the readers of tokenizer files share: members of JSON objects, and errors that name the
// file. Private, as it shows the JSON library.
#pragma once
#include <string>
#include <string_view>

#include "prenorm/base/error.h"
#include "prenorm/base/json.h"
#include "prenorm/base/utf8.h"

namespace prenorm {

class JsonReader {
 public:
  explicit JsonReader(std::string_view name) : name_(name) {}

  // Throws FormatError `NAME: expected ..., found ...`.
  [[noreturn]] void refuse(std::string_view expected, std::string_view found) const {
    throw FormatError(name_ + ": expected " + std::string(expected) + ", found " +
                      std::string(found));
  }

  // A member of an object; null where it is absent. Throws FormatError where `json` is no object.
  const Json& member(const Json& json, const char* key) const {
    static const Json kNull;
    if (!json.is_object()) refuse("an object around '" + std::string(key) + "'", shown(json));
    const auto it = json.find(key);
    return it == json.end() ? kNull : *it;
  }

  // The member "type" of the member `key`; empty where there is no such member.
  std::string type_of(const Json& json, const char* key) const {
    const Json& value = member(json, key);
    if (value.is_null()) return "";
    const Json& type = member(value, "type");
    return type.is_string() ? type.get<std::string>() : shown(type);
  }

  // Values and texts for a message.
  static std::string shown(const Json& value) { return printable(dump_json_compact(value), 60); }
  static std::string in_quotes(std::string_view text) { return "'" + printable(text, 40) + "'"; }

  const std::string& name() const { return name_; }

 private:
  std::string name_;
};

}  // namespace prenorm
