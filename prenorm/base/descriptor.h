// A descriptor of the system's that closes itself, for what this folder opens.
//
//   Descriptor fd = open_descriptor(path, O_RDWR | O_CREAT, 0666);
//   if (!fd) throw_system_error(path, "a file that can be written", errno);
#pragma once
#include <filesystem>
#include <string_view>

namespace prenorm {

class Descriptor {
 public:
  Descriptor() = default;  // holds none
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;

  explicit operator bool() const { return fd_ >= 0; }
  int get() const { return fd_; }
  // False where the system could not write what was waiting; errno says why.
  bool close();

 private:
  int fd_ = -1;
};

// Again where a signal cut it off, and closed in programs that are started from here. None where
// it failed; errno says why.
Descriptor open_descriptor(const std::filesystem::path& path, int flags, unsigned mode = 0);

// A file that this program writes in place, in a folder that may be a stranger's: a link, which
// could lead to any file of the user's, a pipe and a device are refused before anything is written.
// Throws IoError with what was expected.
Descriptor open_own_file(const std::filesystem::path& path, int flags, std::string_view expected);

// IoError "PATH: expected …, found REASON".
[[noreturn]] void throw_system_error(const std::filesystem::path& path, std::string_view expected,
                                     int error);

}  // namespace prenorm
