#include "prenorm/formats/zip.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <unordered_set>
#include <utility>

#include "prenorm/base/checked.h"
#include "prenorm/base/error.h"
#include "prenorm/base/utf8.h"
#include "prenorm/formats/impostor.h"

namespace prenorm {
namespace {

constexpr std::uint32_t kLocalSignature = 0x04034b50, kMemberSignature = 0x02014b50;
constexpr std::uint32_t kEndSignature = 0x06054b50;
constexpr std::uint32_t kEnd64Signature = 0x06064b50, kLocator64Signature = 0x07064b50;
constexpr std::size_t kLocalSize = 30, kMemberSize = 46, kEndSize = 22;
constexpr std::size_t kEnd64Size = 56, kLocator64Size = 20;
constexpr std::size_t kLongestComment = 0xFFFF;
constexpr std::uint16_t kStored = 0, kDeflated = 8;
constexpr std::uint64_t kInflatedFloor = 32u << 20, kInflatedRatio = 32;

using Bytes = std::span<const std::byte>;

// The archive with its name, for checked reads and messages.
class Archive {
 public:
  Archive(Bytes bytes, std::string_view name) : bytes_(bytes), name_(name) {}

  [[noreturn]] void refuse(std::string_view expected, std::string_view found,
                           std::uint64_t at) const {
    throw FormatError(std::string(name_) + ": expected " + std::string(expected) + ", found " +
                      std::string(found) + " at byte " + std::to_string(at));
  }
  Bytes bytes() const { return bytes_; }
  std::uint64_t size() const { return bytes_.size(); }
  std::string_view name() const { return name_; }

  // The range, or an error that names `what`.
  Bytes range(std::uint64_t at, std::uint64_t count, std::string_view what) const {
    if (at > size() || count > size() - at) {
      refuse(std::to_string(count) + " bytes of " + std::string(what), "the end of the file",
             std::min(at, size()));
    }
    return bytes_.subspan(at, count);
  }
  template <typename T>
  T number(std::uint64_t at) const {
    T value;
    std::memcpy(&value, range(at, sizeof value, "a number").data(), sizeof value);
    return value;
  }
  std::string_view text(std::uint64_t at, std::uint64_t count, std::string_view what) const {
    const Bytes found = range(at, count, what);
    return {reinterpret_cast<const char*>(found.data()), found.size()};
  }

 private:
  Bytes bytes_;
  std::string_view name_;
};

struct Directory {
  std::uint64_t members = 0, begin = 0, size = 0;
};

// The end record stands last, before a comment that may hold anything.
std::uint64_t find_end(const Archive& archive) {
  const auto refuse_impostor = [&] {
    const auto what = is_zip(archive.bytes()) ? std::nullopt : impostor(archive.bytes());
    if (what) archive.refuse("a zip archive", *what, 0);
  };
  if (archive.size() < kEndSize) {
    refuse_impostor();
    archive.refuse("a zip archive of at least " + std::to_string(kEndSize) + " bytes",
                   std::to_string(archive.size()) + " bytes", 0);
  }
  const std::uint64_t last = archive.size() - kEndSize;
  const std::uint64_t first = last > kLongestComment ? last - kLongestComment : 0;
  for (std::uint64_t at = last;; --at) {
    if (archive.number<std::uint32_t>(at) == kEndSignature &&
        archive.number<std::uint16_t>(at + 20) == last - at) {
      return at;
    }
    if (at == first) break;
  }
  refuse_impostor();
  archive.refuse("a zip archive with its end record", "none: the file is incomplete", last);
}

// Where the directory must end is put into `records`.
Directory read_directory64(const Archive& archive, std::uint64_t end, std::uint64_t& records) {
  records = archive.number<std::uint64_t>(end - kLocator64Size + 8);
  archive.range(records, kEnd64Size, "the ZIP64 end record");
  if (archive.number<std::uint32_t>(records) != kEnd64Signature) {
    archive.refuse("the ZIP64 end record", "other bytes", records);
  }
  return {archive.number<std::uint64_t>(records + 32), archive.number<std::uint64_t>(records + 48),
          archive.number<std::uint64_t>(records + 40)};
}

// The directory as the end record says, and as the ZIP64 one, if there is one; other readers prefer
// one or the other, so they must agree.
Directory find_directory(const Archive& archive, std::uint64_t end, std::uint64_t& records) {
  if (archive.number<std::uint16_t>(end + 4) != archive.number<std::uint16_t>(end + 6)) {
    archive.refuse("an archive of one file", "one of several", end + 4);
  }
  const Directory narrow{archive.number<std::uint16_t>(end + 10),
                         archive.number<std::uint32_t>(end + 16),
                         archive.number<std::uint32_t>(end + 12)};
  records = end;
  if (end < kLocator64Size ||
      archive.number<std::uint32_t>(end - kLocator64Size) != kLocator64Signature) {
    if (narrow.members == 0xFFFF || narrow.begin == 0xFFFFFFFF || narrow.size == 0xFFFFFFFF) {
      archive.refuse("a ZIP64 locator before the end record", "none", end);
    }
    return narrow;
  }
  const Directory wide = read_directory64(archive, end, records);
  const auto agree = [](std::uint64_t a, std::uint64_t b, std::uint64_t unsaid) {
    return a == unsaid || a == b;
  };
  if (!agree(narrow.members, wide.members, 0xFFFF) ||
      !agree(narrow.begin, wide.begin, 0xFFFFFFFF) || !agree(narrow.size, wide.size, 0xFFFFFFFF)) {
    archive.refuse("end records that say the same", "a ZIP64 one that says another thing", records);
  }
  return wide;
}

Directory read_directory(const Archive& archive) {
  const std::uint64_t end = find_end(archive);
  std::uint64_t records = end;
  const Directory found = find_directory(archive, end, records);
  archive.range(found.begin, found.size, "the directory");
  const std::uint64_t directory_end = found.begin + found.size;
  if (directory_end > records || records > end) {
    archive.refuse("a directory before the end record", "one that reaches into it", found.begin);
  }
  // Other readers count offsets from where the directory would begin without a gap, and find other
  // members.
  if (directory_end < records) {
    archive.refuse("a directory that ends where the end record begins", "other bytes between them",
                   directory_end);
  }
  if (found.members > found.size / kMemberSize) {
    archive.refuse("at most " + std::to_string(found.size / kMemberSize) + " members",
                   std::to_string(found.members), end);
  }
  return found;
}

// ZIP64: the sizes that do not fit their 32-bit fields, in this order.
void read_wide_fields(const Archive& archive, ZipEntry& member, std::uint64_t extra,
                      std::uint64_t extra_size) {
  const std::uint64_t end = extra + extra_size;
  while (end - extra >= 4) {
    const auto kind = archive.number<std::uint16_t>(extra);
    std::uint64_t count = archive.number<std::uint16_t>(extra + 2);
    extra += 4;
    if (count > end - extra) break;
    if (kind == 1) {
      std::uint64_t at = extra;
      for (std::uint64_t* field : {&member.inflated, &member.packed, &member.local}) {
        if (*field != 0xFFFFFFFF) continue;
        if (count < 8) archive.refuse("a ZIP64 field of 8 bytes", std::to_string(count), at);
        *field = archive.number<std::uint64_t>(at);
        at += 8;
        count -= 8;
      }
      return;
    }
    extra += count;
  }
}

// The entry at `at`, which is moved to the next.
ZipEntry read_member(const Archive& archive, std::uint64_t& at, std::uint64_t directory_end) {
  ZipEntry m;
  m.at = at;
  if (directory_end - at < kMemberSize || archive.number<std::uint32_t>(at) != kMemberSignature) {
    archive.refuse("an entry of the directory", "other bytes", at);
  }
  const auto flags = archive.number<std::uint16_t>(at + 8);
  if ((flags & 1) != 0) archive.refuse("members that are not encrypted", "an encrypted one", at);
  const auto method = archive.number<std::uint16_t>(at + 10);
  m.checksum = archive.number<std::uint32_t>(at + 16);
  m.packed = archive.number<std::uint32_t>(at + 20);
  m.inflated = archive.number<std::uint32_t>(at + 24);
  m.local = archive.number<std::uint32_t>(at + 42);
  const std::uint64_t name_size = archive.number<std::uint16_t>(at + 28);
  const std::uint64_t extra_size = archive.number<std::uint16_t>(at + 30);
  const std::uint64_t comment_size = archive.number<std::uint16_t>(at + 32);
  const std::uint64_t size = kMemberSize + name_size + extra_size + comment_size;
  if (size > directory_end - at) {
    archive.refuse("an entry inside the directory", "one that is longer", at);
  }
  m.name = archive.text(at + kMemberSize, name_size, "a name");
  read_wide_fields(archive, m, at + kMemberSize + name_size, extra_size);
  if (method != kStored && method != kDeflated) {
    archive.refuse("a member that is stored or deflated", "method " + std::to_string(method), at);
  }
  m.deflated = method == kDeflated;
  if (!m.deflated && m.packed != m.inflated) {
    archive.refuse("a stored member of one size",
                   std::to_string(m.packed) + " and " + std::to_string(m.inflated) + " bytes", at);
  }
  at += size;
  return m;
}

// Finds the member's bytes; returns where they end.
std::uint64_t locate(const Archive& archive, ZipEntry& m, std::uint64_t directory) {
  archive.range(m.local, kLocalSize, "a member's header");
  if (archive.number<std::uint32_t>(m.local) != kLocalSignature) {
    archive.refuse("the header of '" + printable(m.name) + "'", "other bytes", m.local);
  }
  const std::uint64_t name_size = archive.number<std::uint16_t>(m.local + 26);
  const std::uint64_t extra_size = archive.number<std::uint16_t>(m.local + 28);
  const std::string_view name = archive.text(m.local + kLocalSize, name_size, "a member's name");
  if (name != m.name) {
    archive.refuse("the header of '" + printable(m.name) + "', as the directory says",
                   "that of '" + printable(name) + "'", m.local);
  }
  m.data = m.local + kLocalSize + name_size + extra_size;
  archive.range(m.data, m.packed, "'" + printable(m.name) + "'");
  if (m.data + m.packed > directory) {
    archive.refuse("members before the directory", "one that reaches into it", m.local);
  }
  return m.data + m.packed;
}

// Several members of the same bytes would make a small archive large.
void check_apart(const Archive& archive, std::vector<ZipEntry>& members,
                 const Directory& directory) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
  std::uint64_t inflated = 0;
  for (ZipEntry& m : members) {
    ranges.emplace_back(m.local, locate(archive, m, directory.begin));
    const auto sum = checked_add(inflated, m.inflated);
    inflated = sum.value_or(std::numeric_limits<std::uint64_t>::max());
    const std::uint64_t limit = inflated_limit(archive.size());
    if (inflated > limit) {
      archive.refuse("at most " + std::to_string(limit) + " bytes when inflated",
                     std::to_string(inflated), m.at);
    }
  }
  std::ranges::sort(ranges);
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i].first < ranges[i - 1].second) {
      archive.refuse("members that do not overlap", "an overlap", ranges[i].first);
    }
  }
}

std::uint32_t checksum_of(Bytes bytes) {
  return static_cast<std::uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

// Exactly `out`, from all of `packed`.
bool inflate_into(Bytes packed, std::span<std::byte> out) {
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw std::bad_alloc();
  const std::unique_ptr<z_stream, int (*)(z_stream*)> closer(&stream, inflateEnd);
  constexpr std::size_t kPiece = 1u << 30;  // zlib counts in 32 bits
  std::byte extra{};                        // takes what an empty or a longer stream would give
  int status = Z_OK;
  while (status == Z_OK) {
    const std::size_t in = std::min(packed.size(), kPiece), room = std::min(out.size(), kPiece);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data()));
    stream.avail_in = static_cast<uInt>(in);
    stream.next_out = reinterpret_cast<Bytef*>(room > 0 ? out.data() : &extra);
    stream.avail_out = room > 0 ? static_cast<uInt>(room) : 1u;
    status = inflate(&stream, Z_NO_FLUSH);
    packed = packed.subspan(in - stream.avail_in);
    if (room == 0 && stream.avail_out == 0) return false;
    if (room > 0) out = out.subspan(room - stream.avail_out);
  }
  return status == Z_STREAM_END && packed.empty() && out.empty();
}

}  // namespace

bool is_zip(Bytes bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return text.starts_with("PK\x03\x04") || text.starts_with("PK\x05\x06");
}

std::uint64_t inflated_limit(std::uint64_t archive_size) {
  return kInflatedFloor + kInflatedRatio * archive_size;
}

ZipArchive::ZipArchive(Bytes bytes, std::string name) : bytes_(bytes), name_(std::move(name)) {
  const Archive archive(bytes_, name_);
  const Directory directory = read_directory(archive);
  std::unordered_set<std::string_view> names;
  std::uint64_t at = directory.begin;
  for (std::uint64_t i = 0; i < directory.members; ++i) {
    entries_.push_back(read_member(archive, at, directory.begin + directory.size));
    const ZipEntry& entry = entries_.back();
    if (!names.insert(entry.name).second) {
      refuse("each name once", "'" + printable(entry.name) + "' twice", entry.at);
    }
  }
  if (at != directory.begin + directory.size) {
    refuse("the end of the directory", "more bytes", at);
  }
  check_apart(archive, entries_, directory);
}

ZipArchive::Contents ZipArchive::read(const ZipEntry& entry) const {
  const Archive archive(bytes_, name_);
  Contents found{archive.range(entry.data, entry.packed, "a member"), nullptr};
  if (entry.deflated) {
    const auto inflated = std::make_shared<std::vector<std::byte>>(entry.inflated);
    if (!inflate_into(found.bytes, *inflated)) {
      refuse("'" + printable(entry.name) + "' as a deflated stream of " +
                 std::to_string(entry.inflated) + " bytes",
             "another", entry.data);
    }
    found = {*inflated, inflated};
  }
  if (checksum_of(found.bytes) != entry.checksum) {
    refuse("'" + printable(entry.name) + "' with the checksum of the directory", "another",
           entry.data);
  }
  return found;
}

void ZipArchive::refuse(std::string_view expected, std::string_view found, std::uint64_t at) const {
  Archive(bytes_, name_).refuse(expected, found, at);
}

}  // namespace prenorm
