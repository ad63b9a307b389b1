#include "prenorm/train/state_checksums.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <span>

#include "prenorm/base/checksum.h"
#include "prenorm/base/error.h"
#include "prenorm/base/file.h"
#include "prenorm/base/utf8.h"
#include "prenorm/formats/safetensors.h"

namespace prenorm {
namespace {

constexpr const char* kOwnKey = ",\n  \"crc32\": \"";
constexpr std::string_view kOwnEnd = "\"\n}\n";
constexpr const char* kNames[] = {"config.json",
                                  "generation_config.json",
                                  "model.safetensors",
                                  "tokenizer.json",
                                  "vocab.json",
                                  "tokenizer_config.json",
                                  "merges.txt",
                                  "vocab.txt",
                                  "special_tokens_map.json",
                                  "training_state.safetensors"};

Json checksums_of_tensors(std::span<const std::byte> bytes, const std::string& name) {
  const Safetensors file(bytes, name);
  std::size_t header = bytes.size();
  Json tensors = Json::array();
  for (const Tensor& t : file.tensors()) {  // in the order of their bytes, without holes
    header -= t.bytes.size();
    tensors.push_back({t.name, t.bytes.size(), checksum_text(crc32(t.bytes))});
  }
  return {{"bytes", bytes.size()},
          {"header", checksum_text(crc32(bytes.first(header)))},
          {"tensors", std::move(tensors)}};
}

// A stretch of a file that has a checksum of its own.
struct Stretch {
  std::string what;
  std::uint64_t bytes = 0;
  std::string checksum;
};

[[noreturn]] void refuse_entry(const std::filesystem::path& path) {
  throw FormatError(path.string() +
                    ": expected sizes and checksums of it in training_state.json, found others");
}

std::string text_of(const Json& value, const std::filesystem::path& path) {
  if (!value.is_string()) refuse_entry(path);
  return value.get<std::string>();
}

std::uint64_t size_of(const Json& value, const std::filesystem::path& path) {
  if (!value.is_number_unsigned()) refuse_entry(path);
  return value.get<std::uint64_t>();
}

const Json& member(const Json& entry, const char* key, const std::filesystem::path& path) {
  const auto found = entry.is_object() ? entry.find(key) : entry.end();
  if (!entry.is_object() || found == entry.end()) refuse_entry(path);
  return *found;
}

// The stretches of a file one behind the other, from its beginning to its end.
std::vector<Stretch> stretches(const Json& entry, const std::filesystem::path& path) {
  const std::uint64_t bytes = size_of(member(entry, "bytes", path), path);
  if (!entry.contains("tensors")) {
    return {{"bytes", bytes, text_of(member(entry, "crc32", path), path)}};
  }
  std::vector<Stretch> found = {{"a header", 0, text_of(member(entry, "header", path), path)}};
  std::uint64_t header = bytes;
  for (const Json& tensor : entry.at("tensors")) {
    if (!tensor.is_array() || tensor.size() != 3) refuse_entry(path);
    const std::uint64_t size = size_of(tensor.at(1), path);
    if (size > header) refuse_entry(path);
    header -= size;
    found.push_back({"tensor '" + printable(text_of(tensor.at(0), path)) + "'", size,
                     text_of(tensor.at(2), path)});
  }
  found.front().bytes = header;
  return found;
}

// Read, not mapped: of a disk that fails an error comes, not a signal.
void check_file(const std::filesystem::path& path, const Json& entry) {
  const std::vector<Stretch> parts = stretches(entry, path);
  const std::uint64_t expected = size_of(entry.at("bytes"), path);
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (!error && size != expected) {
    throw FormatError(fmt::format("{}: expected the {} bytes that were saved, found {}",
                                  path.string(), expected, size));
  }
  auto part = parts.begin();
  std::uint64_t done = 0;
  std::uint32_t sum = 0;
  const auto finish_parts = [&] {
    for (; part != parts.end() && done == part->bytes; ++part, done = 0, sum = 0) {
      if (checksum_text(sum) == part->checksum) continue;
      throw FormatError(fmt::format("{}: expected {} as saved (checksum {}), found {}",
                                    path.string(), part->what, part->checksum, checksum_text(sum)));
    }
  };
  finish_parts();
  read_file_in_pieces(path, [&](std::span<const std::byte> piece) {
    while (!piece.empty() && part != parts.end()) {
      const auto n =
          static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), part->bytes - done));
      sum = crc32(piece.first(n), sum);
      done += n;
      piece = piece.subspan(n);
      finish_parts();
    }
  });
  if (part != parts.end()) {
    throw FormatError(path.string() + ": expected " + part->what + " as saved, found its end");
  }
}

}  // namespace

Json checksums_of_files(const std::filesystem::path& folder) {
  Json files = Json::object();
  for (const char* name : kNames) {
    const std::filesystem::path path = folder / name;
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(path, ignored)) continue;
    const MappedFile file(path);
    const auto bytes = file.bytes();
    files[name] = path.extension() == ".safetensors"
                      ? checksums_of_tensors(bytes, path.string())
                      : Json{{"bytes", bytes.size()}, {"crc32", checksum_text(crc32(bytes))}};
  }
  return files;
}

void check_files(const std::filesystem::path& folder, const Json& files) {
  if (!files.is_object()) refuse_entry(folder);
  for (const auto& [name, entry] : files.items()) {
    const auto known = std::ranges::find(kNames, std::string_view(name));
    if (known == std::end(kNames)) refuse_entry(folder / printable(name));
    check_file(folder / name, entry);
  }
}

std::string with_own_checksum(Json object) {
  object.erase("crc32");
  std::string text = dump_json(object);
  text.resize(text.size() - 3);  // "\n}\n"
  const std::string checksum = checksum_text(crc32(text));
  return text + kOwnKey + checksum + std::string(kOwnEnd);
}

void check_own_checksum(std::string_view text, const std::string& name) {
  constexpr std::size_t kDigits = 8;
  const std::string_view key = kOwnKey;
  const std::size_t tail = key.size() + kDigits + kOwnEnd.size();
  const bool ends = text.size() > tail && text.ends_with(kOwnEnd) &&
                    text.substr(text.size() - tail).starts_with(key);
  if (!ends) throw FormatError(name + ": expected its own checksum at the end, found none");
  const std::string found = checksum_text(crc32(text.substr(0, text.size() - tail)));
  const std::string_view expected = text.substr(text.size() - tail + key.size(), kDigits);
  if (found == expected) return;
  throw FormatError(fmt::format("{}: expected text with the checksum {}, found {}", name,
                                printable(expected), found));
}

}  // namespace prenorm
