#include "prenorm/base/descriptor.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "prenorm/base/error.h"

namespace prenorm {

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

Descriptor::Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

bool Descriptor::close() { return ::close(std::exchange(fd_, -1)) == 0; }

Descriptor open_descriptor(const std::filesystem::path& path, int flags, unsigned mode) {
  int fd;
  do {
    fd = ::open(path.c_str(), flags | O_CLOEXEC, mode);
  } while (fd < 0 && errno == EINTR);
  return Descriptor(fd);
}

Descriptor open_own_file(const std::filesystem::path& path, int flags, std::string_view expected) {
  Descriptor fd = open_descriptor(path, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0666);
  struct stat info {};
  const bool opened = static_cast<bool>(fd) && ::fstat(fd.get(), &info) == 0;
  if (!opened && errno != ELOOP) throw_system_error(path, expected, errno);
  if (!opened || !S_ISREG(info.st_mode)) {
    throw IoError(path.string() + ": expected " + std::string(expected) + ", found " +
                  (opened ? "a pipe or a device" : "a link"));
  }
  return fd;
}

void throw_system_error(const std::filesystem::path& path, std::string_view expected, int error) {
  throw IoError(path.string() + ": expected " + std::string(expected) + ", found " +
                std::generic_category().message(error));
}

}  // namespace prenorm
