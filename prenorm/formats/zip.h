// Reading zip archives: what numpy's .npz and PyTorch's .pt files are made of.
//
//   const ZipArchive archive(map.bytes(), "inputs.npz");
//   for (const ZipEntry& e : archive.entries()) use(e.name, archive.read(e));
//
// The reader follows the archive's directory and refuses whatever disagrees with it: members that
// overlap or leave the file, sizes or checksums that are wrong, encryption, other compressions,
// names twice, bytes behind the end. An archive may not inflate to more than 32 times its size and
// 32 MiB, so that a small hostile file stays small.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace prenorm {

// A member, as the directory describes it.
struct ZipEntry {
  std::string_view name;
  bool deflated = false;  // or stored
  std::uint32_t checksum = 0;
  std::uint64_t packed = 0, inflated = 0, local = 0;
  std::uint64_t at = 0;    // of the entry, for messages
  std::uint64_t data = 0;  // where its bytes begin
};

class ZipArchive {
 public:
  // Bytes in memory, which must outlive this; `name` stands for the path in messages.
  // Throws FormatError with name, byte offset, expected and found.
  ZipArchive(std::span<const std::byte> bytes, std::string name);

  const std::string& name() const { return name_; }
  const std::vector<ZipEntry>& entries() const { return entries_; }  // in the directory's order

  struct Contents {
    std::span<const std::byte> bytes;
    std::shared_ptr<const void> owner;  // of inflated bytes; stored ones are the archive's own
  };
  // Throws FormatError for a damaged stream or checksum.
  Contents read(const ZipEntry& entry) const;

  // Throws FormatError `NAME: expected …, found … at byte N`.
  [[noreturn]] void refuse(std::string_view expected, std::string_view found,
                           std::uint64_t at) const;

 private:
  std::span<const std::byte> bytes_;
  std::string name_;
  std::vector<ZipEntry> entries_;
};

// Whether bytes begin as a zip archive does.
bool is_zip(std::span<const std::byte> bytes);

// What the members of an archive of this size may inflate to together.
std::uint64_t inflated_limit(std::uint64_t archive_size);

}  // namespace prenorm
