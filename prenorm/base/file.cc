#include "prenorm/base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <istream>
#include <system_error>
#include <utility>
#include <vector>

#include "prenorm/base/descriptor.h"
#include "prenorm/base/error.h"
#include "prenorm/base/folder.h"
#include "prenorm/base/utf8.h"

namespace prenorm {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongestName = 255;
constexpr std::size_t kWriteBuffer = 1 << 16;
constexpr std::size_t kLargestWrite = 1 << 30;  // Linux writes at most 2 GiB at once

std::string reason(int error) { return std::generic_category().message(error); }

[[noreturn]] void throw_io(std::string_view name, std::string_view expected,
                           std::string_view found) {
  throw IoError(std::string(name) + ": expected " + std::string(expected) + ", found " +
                std::string(found));
}

std::string describe_open_error(int error) {
  return error == ENOENT ? "no such file" : reason(error);
}

enum class Kinds { kAny, kRegular };

// Opens for reading and refuses folders, and what is no regular file where that is asked for; fills
// `info`.
Descriptor open_readable(const fs::path& path, Kinds kinds, struct stat& info) {
  constexpr const char* kExpected = "a readable file";
  if (path.native().find('\0') != std::string::npos) {
    throw_io(printable(path.string()), "a path without NUL", "one with");
  }
  // Opening a pipe that nobody writes to would wait, and opening some devices does something.
  const int flags = kinds == Kinds::kRegular ? O_RDONLY | O_NONBLOCK | O_NOCTTY : O_RDONLY;
  Descriptor fd = open_descriptor(path, flags);
  if (!fd) throw_io(path.string(), kExpected, describe_open_error(errno));
  if (::fstat(fd.get(), &info) != 0) throw_system_error(path, kExpected, errno);
  if (S_ISDIR(info.st_mode)) throw_io(path.string(), kExpected, "a folder");
  if (kinds == Kinds::kRegular && !S_ISREG(info.st_mode)) {
    throw_io(path.string(), "a regular file", "a pipe or a device");
  }
  // Most of them never end.
  if (S_ISBLK(info.st_mode) || (S_ISCHR(info.st_mode) && ::isatty(fd.get()) == 0)) {
    throw_io(path.string(), "a file or a pipe", "a device");
  }
  return fd;
}

std::string read_opened(const fs::path& path, Kinds kinds, std::size_t most) {
  struct stat info {};
  const Descriptor fd = open_readable(path, kinds, info);
  const auto too_long = [&](const std::string& found) {
    throw_io(path.string(), "at most " + std::to_string(most) + " bytes", found);
  };
  const auto size = static_cast<std::size_t>(info.st_size);
  if (S_ISREG(info.st_mode) && size > most) too_long(std::to_string(size));
  std::string text;
  // One byte more than the size, so that the read that finds the end needs no second buffer.
  text.resize(S_ISREG(info.st_mode) ? size + 1 : kWriteBuffer);
  std::size_t used = 0;
  for (;;) {
    if (used > most) too_long("more");
    if (used == text.size()) text.resize(2 * text.size());
    const ssize_t n = ::read(fd.get(), text.data() + used, text.size() - used);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw_io(path.string(), "a readable file", reason(errno));
    if (n == 0) break;
    used += static_cast<std::size_t>(n);
  }
  text.resize(used);
  return text;
}

// Makes a file beside `path` that did not exist before; throws IoError about `name`.
fs::path make_temporary(const fs::path& path, Descriptor& fd, std::string_view name,
                        std::string_view expected) {
  for (unsigned attempt = 0;; ++attempt) {
    fs::path temporary = temporary_name(path, attempt);
    fd = open_descriptor(temporary, O_WRONLY | O_CREAT | O_EXCL, 0666);
    if (fd) return temporary;
    if (errno != EEXIST) throw_io(name, expected, reason(errno));
  }
}

// Removes the temporary file unless it was renamed.
struct TemporaryGuard {
  explicit TemporaryGuard(fs::path file) : path(std::move(file)) {}
  ~TemporaryGuard() {
    if (!path.empty()) ::unlink(path.c_str());
  }
  TemporaryGuard(const TemporaryGuard&) = delete;
  TemporaryGuard& operator=(const TemporaryGuard&) = delete;
  fs::path path;
};

}  // namespace

fs::path temporary_name(const fs::path& path, unsigned attempt) {
  return folder_of(path) / ("." + path.filename().string() + ".tmp-" + std::to_string(::getpid()) +
                            "-" + std::to_string(attempt));
}

std::string read_file(const fs::path& path, std::size_t most) {
  return read_opened(path, Kinds::kAny, most);
}

std::string read_regular_file(const fs::path& path, std::size_t most) {
  return read_opened(path, Kinds::kRegular, most);
}

bool file_exists(const fs::path& path) noexcept {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0;
}

bool lies_inside(const fs::path& folder, std::string_view name) {
  const fs::path path(name);
  const auto unfit = [](char c) { return c == '\\' || static_cast<unsigned char>(c) < 0x20; };
  if (name.size() > kLongestName || std::ranges::any_of(name, unfit)) return false;
  if (path.is_absolute() || std::ranges::find(path, fs::path("..")) != path.end()) return false;
  std::error_code error;
  const fs::path home = fs::canonical(folder.empty() ? fs::path(".") : folder, error);
  if (error) return true;
  const fs::path target = fs::canonical(home / path, error);
  if (error) return true;
  const auto is_below = [&target](const fs::path& above) {
    return std::ranges::mismatch(above, target).in1 == above.end();
  };
  if (is_below(home)) return true;
  // .../snapshots/REVISION and .../blobs
  return home.parent_path().filename() == "snapshots" &&
         is_below(home.parent_path().parent_path() / "blobs");
}

void read_file_in_pieces(const fs::path& path, FunctionRef<void(std::span<const std::byte>)> take) {
  struct stat info {};
  const Descriptor fd = open_readable(path, Kinds::kRegular, info);
  std::vector<std::byte> piece(std::size_t{1} << 20);
  for (;;) {
    const ssize_t n = ::read(fd.get(), piece.data(), piece.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw_io(path.string(), "a readable file", reason(errno));
    if (n == 0) return;
    take(std::span(piece).first(static_cast<std::size_t>(n)));
  }
}

std::string read_stream(std::istream& in, std::string_view name) {
  std::string text;
  char chunk[kWriteBuffer];
  while (in.read(chunk, sizeof chunk) || in.gcount() > 0) {
    text.append(chunk, static_cast<std::size_t>(in.gcount()));
  }
  if (in.bad() || !in.eof()) throw_io(name, "a readable stream", "an error while reading");
  return text;
}

MappedFile::MappedFile(const fs::path& path) {
  struct stat info {};
  const Descriptor fd = open_readable(path, Kinds::kRegular, info);
  if (info.st_size == 0) return;
  const auto size = static_cast<std::size_t>(info.st_size);
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (data == MAP_FAILED) throw_io(path.string(), "a file that can be mapped", reason(errno));
  data_ = static_cast<const std::byte*>(data);
  size_ = size;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

void FileWriter::write(std::string_view bytes) {
  if (buffer_.size() + bytes.size() > kWriteBuffer) flush();
  if (bytes.size() >= kWriteBuffer) {
    write_through(bytes);
  } else {
    buffer_.append(bytes);
  }
}

void FileWriter::write(std::span<const std::byte> bytes) {
  write(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

void FileWriter::flush() {
  write_through(buffer_);
  buffer_.clear();
}

void FileWriter::write_through(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_, bytes.data(), std::min(bytes.size(), kLargestWrite));
    if (n < 0 && errno == EINTR) continue;
    // A write of nothing without an error would loop for ever.
    if (n <= 0) throw_io(name_, "room to write", n < 0 ? reason(errno) : "a write of 0 bytes");
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
}

void write_file_durably(const fs::path& path, std::string_view bytes) {
  write_file_durably(path, [bytes](FileWriter& out) { out.write(bytes); });
}

void write_file_durably(const fs::path& path, FunctionRef<void(FileWriter&)> fill) {
  const std::string name = path.string();
  if (!path.has_filename()) throw_io(name, "a file name to write to", "a folder");
  // Renaming over /dev/null or /dev/stdout would take it away from the whole machine.
  struct stat old {};
  if (::stat(path.c_str(), &old) == 0 && !S_ISREG(old.st_mode) && !S_ISDIR(old.st_mode)) {
    throw_io(name, "a file that can be replaced", "a pipe or a device");
  }
  Descriptor fd;
  TemporaryGuard temporary(make_temporary(path, fd, name, "a writable file"));
  FileWriter out(fd.get(), name);
  fill(out);
  out.flush();
  if (::fsync(fd.get()) != 0) throw_io(name, "a file that can be synced", reason(errno));
  if (!fd.close()) throw_io(name, "a file that can be closed", reason(errno));
  if (::rename(temporary.path.c_str(), path.c_str()) != 0) {
    throw_io(name, "a file that can be replaced", reason(errno));
  }
  temporary.path.clear();
  sync_folder(folder_of(path));
}

void sync_file(const fs::path& path) {
  struct stat info {};
  const Descriptor fd = open_readable(path, Kinds::kRegular, info);
  if (::fsync(fd.get()) != 0) throw_io(path.string(), "a file that can be synced", reason(errno));
}

void ensure_directory(const fs::path& folder) {
  constexpr const char* kExpected = "a folder that can be written";
  std::error_code error;
  fs::create_directories(folder, error);
  std::error_code unknown;  // a link to itself, for one
  const fs::file_status status = fs::status(folder, unknown);
  if (!fs::is_directory(status)) {
    throw_io(folder.string(), kExpected,
             fs::exists(status) ? "a file" : reason(error ? error.value() : ENOENT));
  }
  // access() knows nothing of a full disk or a read-only mount: making a file is the sure answer.
  Descriptor fd;
  const TemporaryGuard probe(make_temporary(folder / "probe", fd, folder.string(), kExpected));
}

}  // namespace prenorm
