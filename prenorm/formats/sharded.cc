#include "prenorm/formats/sharded.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "prenorm/base/error.h"
#include "prenorm/base/file.h"
#include "prenorm/base/json.h"
#include "prenorm/base/listing.h"
#include "prenorm/base/utf8.h"

namespace prenorm {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostShards = 1000;

std::string in_quotes(std::string_view name) { return "'" + printable(name) + "'"; }

[[noreturn]] void refuse(const fs::path& index, const std::string& expected,
                         const std::string& found) {
  throw FormatError(index.string() + ": expected " + expected + ", found " + found);
}

// File by tensor.
std::map<std::string, std::string> read_map(const fs::path& index) {
  const Json json = parse_json(read_regular_file(index), index.string());
  if (!json.is_object()) refuse(index, "an object", json.type_name());
  const auto map = json.find("weight_map");
  if (map == json.end() || !map->is_object() || map->empty()) {
    refuse(index, "weight_map, an object of file names by tensor",
           map == json.end() ? "none" : printable(dump_json_compact(*map), 40));
  }
  std::map<std::string, std::string> files;
  for (const auto& [tensor, file] : map->items()) {
    if (!file.is_string()) {
      refuse(index, "a file name for " + in_quotes(tensor), printable(dump_json_compact(file), 40));
    }
    const auto& name = file.get_ref<const std::string&>();
    const auto unfit = [](char c) {
      return c == '/' || c == '\\' || static_cast<unsigned char>(c) < 0x20;
    };
    if (name.empty() || name.size() > 255 || name == "." || name == ".." ||
        std::ranges::any_of(name, unfit)) {
      refuse(index, "plain file names in weight_map", in_quotes(name));
    }
    if (tensor.empty() || tensor.find('\0') != std::string::npos) {
      refuse(index, "tensors with names without NUL", in_quotes(tensor));
    }
    files.emplace(tensor, name);
  }
  return files;
}

}  // namespace

TensorFile read_sharded(const fs::path& index) {
  const std::map<std::string, std::string> file_of = read_map(index);
  std::map<std::string, const TensorFile*> by_name;
  const auto shards = std::make_shared<std::vector<std::unique_ptr<TensorFile>>>();
  for (const auto& [tensor, name] : file_of) {
    if (by_name.contains(name)) continue;
    if (by_name.size() == kMostShards) {
      refuse(index, "at most " + std::to_string(kMostShards) + " files", "more");
    }
    if (!lies_inside(index.parent_path(), name)) {
      refuse(index, "files in the index's own folder", in_quotes(name) + ", a link that leads out");
    }
    shards->push_back(std::make_unique<TensorFile>(read_tensors(index.parent_path() / name)));
    by_name.emplace(name, shards->back().get());
  }
  std::vector<std::string> missing, unexpected;
  for (const auto& [tensor, name] : file_of) {
    if (by_name.at(name)->find(tensor) == nullptr) {
      missing.push_back(printable(tensor) + " in " + printable(name));
    }
  }
  std::vector<Tensor> tensors;
  for (const auto& [name, shard] : by_name) {
    for (const Tensor& t : shard->tensors()) {
      const auto it = file_of.find(t.name);
      if (it == file_of.end() || it->second != name) {
        unexpected.push_back(printable(t.name) + " in " + printable(name));
      }
      tensors.push_back(t);
    }
  }
  if (!missing.empty() || !unexpected.empty()) {
    refuse(index, "the tensors of its files",
           std::to_string(missing.size()) + " missing and " + std::to_string(unexpected.size()) +
               " unexpected" + listing("missing", missing) + listing("unexpected", unexpected));
  }
  return TensorFile(index.string(), std::move(tensors), shards);
}

}  // namespace prenorm
