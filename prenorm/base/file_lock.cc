#include "prenorm/base/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "prenorm/base/error.h"

namespace prenorm {
namespace {

// The number that the holder has written, for the message; empty where there is none.
std::string holder(int fd) {
  char digits[24];
  const ssize_t n = ::pread(fd, digits, sizeof digits, 0);
  std::string text;
  for (ssize_t i = 0; i < n && digits[i] >= '0' && digits[i] <= '9'; ++i) text += digits[i];
  return text.empty() ? text : " (process " + text + ")";
}

}  // namespace

FileLock::FileLock(const std::filesystem::path& path) {
  do {
    fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  } while (fd_ < 0 && errno == EINTR);
  if (fd_ < 0) {
    throw IoError(path.string() + ": expected a file that can be written, found " +
                  std::generic_category().message(errno));
  }
  int locked;
  do {
    locked = ::flock(fd_, LOCK_EX | LOCK_NB);
  } while (locked != 0 && errno == EINTR);
  if (locked != 0 && errno == EWOULDBLOCK) {
    const std::string other = holder(fd_);
    ::close(std::exchange(fd_, -1));
    throw IoError(path.string() + ": expected no other process at work here, found one" + other);
  }
  if (locked != 0) {
    ::close(std::exchange(fd_, -1));
    return;
  }
  // Only for messages: a full disk does not matter.
  const std::string digits = std::to_string(::getpid()) + "\n";
  if (::ftruncate(fd_, 0) == 0) {
    static_cast<void>(::pwrite(fd_, digits.data(), digits.size(), 0) == 0);
  }
}

FileLock::~FileLock() {
  if (fd_ >= 0) ::close(fd_);
}

FileLock::FileLock(FileLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

FileLock& FileLock::operator=(FileLock&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

}  // namespace prenorm
