// Reading files whole or mapped, and writing them so that a crash never leaves half of one.
//
//   std::string text = read_file("corpus.txt");
//   write_file_durably("RUN/config.json", json);
//   write_file_durably("RUN/model.safetensors", [&](FileWriter& out) { out.write(header); ... });
//
// Every failure is an IoError that names the path and the system's reason.
#pragma once
#include <cstddef>
#include <filesystem>
#include <iosfwd>
#include <span>
#include <string>
#include <string_view>

#include "prenorm/base/function_ref.h"

namespace prenorm {

inline constexpr std::size_t kNoLimit = static_cast<std::size_t>(-1);

// The whole file (a pipe works too), for what the user names. Throws IoError: missing, a folder,
// unreadable, longer than `most` bytes.
std::string read_file(const std::filesystem::path& path, std::size_t most = kNoLimit);

// The same for what a folder or another file names, which may be a stranger's: a pipe or a device,
// from which reading could wait or go on for ever, is refused before a byte is read.
std::string read_regular_file(const std::filesystem::path& path, std::size_t most = 1u << 30);

// Whether there is something of this name. A link that leads nowhere is something: whoever opens it
// is told so, where passing it over would give the folder another meaning. Never throws.
bool file_exists(const std::filesystem::path& path) noexcept;

// Whether `name`, a file or folder that a stranger's file names, lies in `folder`: a relative path
// of at most 255 bytes without "..", backslash or control characters, and no link on the way leads
// out of the folder. Hugging Face's cache may keep what the links lead to in "blobs", beside the
// folder of "snapshots". True for a name that is not there.
bool lies_inside(const std::filesystem::path& folder, std::string_view name);

// The file from its beginning in pieces of up to 1 MiB. Throws IoError.
void read_file_in_pieces(const std::filesystem::path& path,
                         FunctionRef<void(std::span<const std::byte>)> take);

// The rest of a stream, e.g. std::cin; `name` stands for it in the IoError.
std::string read_stream(std::istream& in, std::string_view name);

// A regular file mapped read-only; pages are read when touched. An empty file has empty bytes().
// Another process that shortens the file while it is mapped kills this one (SIGBUS): files written
// by write_file_durably are replaced, never shortened.
class MappedFile {
 public:
  MappedFile() = default;
  explicit MappedFile(const std::filesystem::path& path);  // throws IoError
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// Where the callback of write_file_durably puts its bytes. Small writes are gathered.
class FileWriter {
 public:
  FileWriter(int descriptor, std::string name) : fd_(descriptor), name_(std::move(name)) {}
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  void write(std::string_view bytes);  // throws IoError
  void write(std::span<const std::byte> bytes);
  void flush();

 private:
  void write_through(std::string_view bytes);

  int fd_;
  std::string name_;
  std::string buffer_;
};

// Replaces the file at `path` whole or not at all: the bytes go to a temporary file in the same
// folder, which is synced, renamed over `path`, and the folder synced. On any error, the callback's
// own exceptions included, the temporary file is removed and `path` is as it was.
// A link at `path` is replaced, not followed; a pipe and a device are refused. Throws IoError.
void write_file_durably(const std::filesystem::path& path, std::string_view bytes);
void write_file_durably(const std::filesystem::path& path, FunctionRef<void(FileWriter&)> fill);

// The name under which the file is written before it is renamed: in the same folder, and of this
// process alone. What a killed process leaves goes by remove_leftovers() (folder.h).
std::filesystem::path temporary_name(const std::filesystem::path& path, unsigned attempt);

// When it returns, what other calls have written to the file is on disk. Throws IoError.
void sync_file(const std::filesystem::path& path);

// Makes the folder and its parents. Throws IoError when that fails, when something else than a
// folder is there, or when no file can be made inside.
void ensure_directory(const std::filesystem::path& folder);

}  // namespace prenorm
