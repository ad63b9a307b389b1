// A disk that fails, and a process that dies, at a chosen system call: preloaded into the program,
// it counts the calls that change files under a folder and has one of them fail.
//
//   LD_PRELOAD=fault_layer.so FAULTS_FOLDER=/tmp/RUN FAULTS_LOG=calls FAULTS_AT=17 FAULTS_KIND=EIO
//
// FAULTS_LOG gets a line for each call: its name and path. FAULTS_AT is the number of the call,
// from 1; 0: none. FAULTS_KIND: "kill" (the process is killed before the call), "ENOSPC" and "EIO"
// (the call fails with that error and does nothing; a close still closes), "short" (half of a
// write), "full" (from that call on all that needs room fails with ENOSPC).
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdlib>
#include <string>

namespace {

constexpr int kMostFiles = 4096;

std::atomic<long> calls{0};
std::atomic<bool> ours[kMostFiles];  // descriptors of files under the folder

const char* setting(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string link_target(const std::string& link) {
  char target[4096];
  const ssize_t n = readlink(link.c_str(), target, sizeof target);
  return n > 0 ? std::string(target, static_cast<std::size_t>(n)) : "";
}

std::string full_path(int folder, const char* path) {
  if (path[0] == '/') return path;
  const std::string base = link_target(
      folder == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/" + std::to_string(folder));
  return base + "/" + path;
}

bool is_under(const std::string& path) {
  const std::string folder = setting("FAULTS_FOLDER");
  return !folder.empty() && path.starts_with(folder) &&
         (path.size() == folder.size() || path[folder.size()] == '/');
}

void write_log(const char* name, const std::string& path) {
  const char* log = setting("FAULTS_LOG");
  if (*log == 0) return;
  const auto fd = static_cast<int>(
      syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  const std::string line = std::string(name) + " " + path + "\n";
  syscall(SYS_write, fd, line.data(), line.size());
  syscall(SYS_close, fd);
}

enum class Fault { kNone, kError, kShort };

// Counts a call on a path under the folder; what becomes of it. kError: errno is set.
Fault fault_of(const char* name, const std::string& path, bool needs_room) {
  const long number = ++calls;
  write_log(name, path);
  const long at = std::atol(setting("FAULTS_AT"));
  const std::string kind = setting("FAULTS_KIND");
  if (at == 0 || number < at) return Fault::kNone;
  if (kind == "full" && needs_room) {
    errno = ENOSPC;
    return Fault::kError;
  }
  if (number != at) return Fault::kNone;
  if (kind == "kill") {
    syscall(SYS_kill, getpid(), SIGKILL);
    pause();
  }
  if (kind == "short") return Fault::kShort;
  if (kind != "ENOSPC" && kind != "EIO") return Fault::kNone;
  errno = kind == "EIO" ? EIO : ENOSPC;
  return Fault::kError;
}

bool fails(const char* name, const std::string& path, bool needs_room = false) {
  return is_under(path) && fault_of(name, path, needs_room) == Fault::kError;
}

bool is_ours(int fd) { return fd >= 0 && fd < kMostFiles && ours[fd]; }

bool fails_on(const char* name, int fd, bool needs_room = false) {
  return is_ours(fd) && fault_of(name, link_target("/proc/self/fd/" + std::to_string(fd)),
                                 needs_room) == Fault::kError;
}

int open_at(int folder, const char* path, int flags, mode_t mode) {
  const std::string whole = full_path(folder, path);
  const bool changes = (flags & (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC)) != 0;
  const bool under = is_under(whole);
  // Of what is only read, folders count: they are opened to be synced.
  const bool counts = under && (changes || (flags & O_DIRECTORY) != 0);
  if (counts && fault_of("open", whole, (flags & O_CREAT) != 0) == Fault::kError) return -1;
  const auto fd = static_cast<int>(syscall(SYS_openat, folder, path, flags, mode));
  if (counts && fd >= 0 && fd < kMostFiles) ours[fd] = true;
  return fd;
}

mode_t mode_of(int flags, va_list arguments) {
  return (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
}

}  // namespace

extern "C" {

#define PRENORM_OPEN(NAME)                         \
  int NAME(const char* path, int flags, ...) {     \
    va_list arguments;                             \
    va_start(arguments, flags);                    \
    const mode_t mode = mode_of(flags, arguments); \
    va_end(arguments);                             \
    return open_at(AT_FDCWD, path, flags, mode);   \
  }
#define PRENORM_OPENAT(NAME)                               \
  int NAME(int folder, const char* path, int flags, ...) { \
    va_list arguments;                                     \
    va_start(arguments, flags);                            \
    const mode_t mode = mode_of(flags, arguments);         \
    va_end(arguments);                                     \
    return open_at(folder, path, flags, mode);             \
  }
PRENORM_OPEN(open)
PRENORM_OPEN(open64)
PRENORM_OPENAT(openat)
PRENORM_OPENAT(openat64)

int close(int fd) {
  const bool failed = fails_on("close", fd);
  const int error = errno;
  if (fd >= 0 && fd < kMostFiles) ours[fd] = false;
  const auto result = static_cast<int>(syscall(SYS_close, fd));
  if (!failed) return result;
  errno = error;
  return -1;
}

ssize_t write(int fd, const void* bytes, size_t count) {
  if (is_ours(fd)) {
    const std::string path = link_target("/proc/self/fd/" + std::to_string(fd));
    const Fault fault = fault_of("write", path, true);
    if (fault == Fault::kError) return -1;
    if (fault == Fault::kShort && count > 1) count /= 2;
  }
  return syscall(SYS_write, fd, bytes, count);
}

int fsync(int fd) { return fails_on("fsync", fd) ? -1 : static_cast<int>(syscall(SYS_fsync, fd)); }

int ftruncate(int fd, off_t size) noexcept {
  return fails_on("ftruncate", fd) ? -1 : static_cast<int>(syscall(SYS_ftruncate, fd, size));
}

int rename(const char* from, const char* to) noexcept {
  if (fails("rename", full_path(AT_FDCWD, to))) return -1;
  return static_cast<int>(syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to));
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to,
              unsigned flags) noexcept {
  if (fails("renameat2", full_path(to_folder, to))) return -1;
  return static_cast<int>(syscall(SYS_renameat2, from_folder, from, to_folder, to, flags));
}

int link(const char* from, const char* to) noexcept {
  if (fails("link", full_path(AT_FDCWD, to), true)) return -1;
  return static_cast<int>(syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0));
}

int unlink(const char* path) noexcept {
  if (fails("unlink", full_path(AT_FDCWD, path))) return -1;
  return static_cast<int>(syscall(SYS_unlinkat, AT_FDCWD, path, 0));
}

int unlinkat(int folder, const char* path, int flags) noexcept {
  if (fails("unlinkat", full_path(folder, path))) return -1;
  return static_cast<int>(syscall(SYS_unlinkat, folder, path, flags));
}

int rmdir(const char* path) noexcept {
  if (fails("rmdir", full_path(AT_FDCWD, path))) return -1;
  return static_cast<int>(syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR));
}

int mkdir(const char* path, mode_t mode) noexcept {
  if (fails("mkdir", full_path(AT_FDCWD, path), true)) return -1;
  return static_cast<int>(syscall(SYS_mkdirat, AT_FDCWD, path, mode));
}

}  // extern "C"
