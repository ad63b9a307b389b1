#include "prenorm/base/append_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "prenorm/base/error.h"

namespace prenorm {
namespace {

[[noreturn]] void throw_io(const std::filesystem::path& path, const char* expected, int error) {
  throw IoError(path.string() + ": expected " + expected + ", found " +
                std::generic_category().message(error));
}

}  // namespace

AppendFile::AppendFile(std::filesystem::path path, std::uint64_t keep_bytes)
    : path_(std::move(path)) {
  do {
    fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  } while (fd_ < 0 && errno == EINTR);
  if (fd_ < 0) throw_io(path_, "a file to append to", errno);
  if (::ftruncate(fd_, static_cast<off_t>(keep_bytes)) != 0) {
    const int error = errno;
    ::close(fd_);
    throw_io(path_, "a file that can be shortened", error);
  }
}

AppendFile::~AppendFile() { ::close(fd_); }

void AppendFile::append(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd_, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw_io(path_, "room for another line", n < 0 ? errno : ENOSPC);
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

}  // namespace prenorm
