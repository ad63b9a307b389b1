// The bytes of .npy files and .npz archives, as numpy writes them, and of damaged ones.
#pragma once
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace prenorm {

template <typename T>
std::string little_endian(T value) {
  std::string out(sizeof value, '\0');
  std::memcpy(out.data(), &value, sizeof value);
  return out;
}

inline std::string npy_with_header(const std::string& header, const std::string& data,
                                   int version = 1) {
  std::string out = "\x93NUMPY";
  out += static_cast<char>(version);
  out += '\0';
  const std::string text = header + "\n";
  out += version == 1 ? little_endian(static_cast<std::uint16_t>(text.size()))
                      : little_endian(static_cast<std::uint32_t>(text.size()));
  return out + text + data;
}

inline std::string npy_file(const std::string& descr, bool fortran, const std::string& shape,
                            const std::string& data, int version = 1) {
  return npy_with_header("{'descr': '" + descr + "', 'fortran_order': " +
                             (fortran ? "True" : "False") + ", 'shape': " + shape + ", }",
                         data, version);
}

inline std::uint32_t crc32_of(const std::string& bytes) {
  std::uint32_t crc = 0xFFFFFFFFu;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0u);
  }
  return ~crc;
}

struct ZipMember {
  std::string name, data;  // data: as it is when unpacked
  bool deflated = false;   // one stored block of a deflate stream
  bool wide = false;       // sizes in a ZIP64 field
  std::string local_name = name;
  std::int64_t moved = 0;  // added to the local offset in the directory
  std::uint32_t checksum = crc32_of(data);
  std::uint16_t flags = 0;
  std::uint16_t method = deflated ? 8 : 0;
  std::uint64_t claimed = data.size();  // size when unpacked
};

inline std::string deflated_block(const std::string& data) {
  const auto size = static_cast<std::uint16_t>(data.size());
  return "\x01" + little_endian(size) + little_endian(static_cast<std::uint16_t>(~size)) + data;
}

inline std::string zip_file(const std::vector<ZipMember>& members,
                            const std::string& comment = "") {
  std::string out, directory;
  for (const ZipMember& m : members) {
    const std::string packed = m.deflated ? deflated_block(m.data) : m.data;
    const auto short32 = [&](std::uint64_t n) {
      return little_endian(m.wide ? 0xFFFFFFFFu : static_cast<std::uint32_t>(n));
    };
    const std::string sizes =
        little_endian(m.checksum) + short32(packed.size()) + short32(m.claimed);
    std::string extra;
    if (m.wide) {
      extra = little_endian<std::uint16_t>(1) + little_endian<std::uint16_t>(16) +
              little_endian(m.claimed) + little_endian<std::uint64_t>(packed.size());
    }
    const auto lengths = [&](const std::string& name) {
      return little_endian(static_cast<std::uint16_t>(name.size())) +
             little_endian(static_cast<std::uint16_t>(extra.size()));
    };
    const std::string common = little_endian<std::uint16_t>(45) + little_endian(m.flags) +
                               little_endian(m.method) + std::string(4, '\0') + sizes;
    const auto offset = static_cast<std::uint32_t>(static_cast<std::int64_t>(out.size()) + m.moved);
    directory += "PK\x01\x02" + little_endian<std::uint16_t>(45) + common + lengths(m.name) +
                 std::string(10, '\0') + little_endian(offset) + m.name + extra;
    out += "PK\x03\x04" + common + lengths(m.local_name) + m.local_name + extra + packed;
  }
  const auto count = static_cast<std::uint16_t>(members.size());
  const auto begin = static_cast<std::uint32_t>(out.size());
  out += directory + "PK\x05\x06" + std::string(4, '\0') + little_endian(count) +
         little_endian(count) + little_endian(static_cast<std::uint32_t>(directory.size())) +
         little_endian(begin) + little_endian(static_cast<std::uint16_t>(comment.size())) + comment;
  return out;
}

}  // namespace prenorm
