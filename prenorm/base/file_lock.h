// Keeps a second process out of a folder.
//
//   const FileLock lock("RUN/.lock");   // throws IoError while another process holds it
//
// The system lets go of the lock when the process ends, however it ends: a lock file that a killed
// process has left behind locks nothing. Between machines the lock is as good as the file system's.
#pragma once
#include <filesystem>

#include "prenorm/base/descriptor.h"

namespace prenorm {

class FileLock {
 public:
  FileLock() = default;  // holds nothing
  // Makes the file where it is not there and writes the process's number into it. A file system
  // without locks gives none: held() is false. Throws IoError where another process holds it, and
  // where the file cannot be opened.
  explicit FileLock(const std::filesystem::path& path);

  bool held() const { return static_cast<bool>(fd_); }

 private:
  Descriptor fd_;
};

}  // namespace prenorm
