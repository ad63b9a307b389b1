#include "prenorm/base/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <string>
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
  Descriptor fd = open_own_file(path, O_RDWR | O_CREAT, "a file that can be written");
  int locked;
  do {
    locked = ::flock(fd.get(), LOCK_EX | LOCK_NB);
  } while (locked != 0 && errno == EINTR);
  if (locked != 0 && errno == EWOULDBLOCK) {
    throw IoError(path.string() + ": expected no other process at work here, found one" +
                  holder(fd.get()));
  }
  if (locked != 0) return;
  // Only for messages: a full disk does not matter.
  const std::string digits = std::to_string(::getpid()) + "\n";
  if (::ftruncate(fd.get(), 0) == 0) {
    static_cast<void>(::pwrite(fd.get(), digits.data(), digits.size(), 0) == 0);
  }
  fd_ = std::move(fd);
}

}  // namespace prenorm
