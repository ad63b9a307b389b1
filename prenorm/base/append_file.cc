#include "prenorm/base/append_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace prenorm {

AppendFile::AppendFile(std::filesystem::path path, std::uint64_t keep_bytes)
    : path_(std::move(path)),
      fd_(open_own_file(path_, O_WRONLY | O_CREAT | O_APPEND, "a file to append to")) {
  if (::ftruncate(fd_.get(), static_cast<off_t>(keep_bytes)) != 0) {
    throw_system_error(path_, "a file that can be shortened", errno);
  }
}

void AppendFile::append(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd_.get(), text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw_system_error(path_, "room for another line", n < 0 ? errno : ENOSPC);
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

}  // namespace prenorm
