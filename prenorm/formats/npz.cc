#include "prenorm/formats/npz.h"

#include <utility>

#include "prenorm/base/utf8.h"
#include "prenorm/formats/npy.h"
#include "prenorm/formats/zip.h"

namespace prenorm {
namespace {

constexpr std::string_view kSuffix = ".npy";

Tensor read_array(const ZipArchive& archive, const ZipEntry& entry) {
  const ZipArchive::Contents found = archive.read(entry);
  Tensor tensor = parse_npy(found.bytes, archive.name() + ": " + printable(entry.name));
  tensor.name = std::string(entry.name.substr(0, entry.name.size() - kSuffix.size()));
  if (tensor.owner == nullptr) tensor.owner = found.owner;
  return tensor;
}

void check_name(const ZipArchive& archive, const ZipEntry& entry) {
  if (!entry.name.ends_with(kSuffix) || entry.name.size() == kSuffix.size() ||
      find_invalid_utf8(entry.name) || entry.name.find('\0') != std::string_view::npos) {
    archive.refuse("members named NAME.npy", "'" + printable(entry.name) + "'", entry.at);
  }
}

}  // namespace

Npz::Npz(const std::filesystem::path& path) : name_(path.string()), map_(path) {
  parse(map_.bytes());
}

Npz::Npz(std::span<const std::byte> bytes, std::string name) : name_(std::move(name)) {
  parse(bytes);
}

void Npz::parse(std::span<const std::byte> bytes) {
  const ZipArchive archive(bytes, name_);
  for (const ZipEntry& entry : archive.entries()) check_name(archive, entry);
  tensors_.reserve(archive.entries().size());
  for (const ZipEntry& entry : archive.entries()) tensors_.push_back(read_array(archive, entry));
}

}  // namespace prenorm
