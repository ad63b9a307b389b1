#include "prenorm/base/folder.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "prenorm/base/descriptor.h"
#include "prenorm/base/file.h"

namespace prenorm {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSaving = ".saving", kRemoving = ".removing-", kReplaced = ".replaced-";

fs::path beside(const fs::path& path, std::string_view prefix) {
  return folder_of(path) / (std::string(prefix) + path.filename().string());
}

bool is_there(const fs::path& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0;
}

void rename_or_throw(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0)
    throw_system_error(from, "a name that can change", errno);
}

void remove_all_or_throw(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) throw_system_error(path, "a folder that can be removed", error.value());
}

// Whether the system could exchange the two names.
bool exchange(const fs::path& a, const fs::path& b) {
#ifdef RENAME_EXCHANGE
  if (::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0) return true;
  if (errno != EINVAL && errno != ENOSYS && errno != ENOTSUP) {
    throw_system_error(a, "a name that can change", errno);
  }
#else
  static_cast<void>(a), static_cast<void>(b);
#endif
  return false;
}

// Whether it is the name of a temporary file whose process is no more. This process has none open:
// one of its own number is of an earlier process that had it too.
bool is_stale_temporary(std::string_view name) {
  constexpr std::string_view kMark = ".tmp-";
  const std::size_t at = name.rfind(kMark);
  if (!name.starts_with('.') || at == std::string_view::npos || at < 2) return false;
  const char* const begin = name.data() + at + kMark.size();
  const char* const end = name.data() + name.size();
  long process = 0;
  unsigned attempt = 0;
  const auto number = std::from_chars(begin, end, process);
  if (number.ec != std::errc() || number.ptr == end || *number.ptr != '-') return false;
  const auto last = std::from_chars(number.ptr + 1, end, attempt);
  if (last.ec != std::errc() || last.ptr != end || process <= 0) return false;
  const auto pid = static_cast<pid_t>(process);
  return pid == ::getpid() || (::kill(pid, 0) != 0 && errno == ESRCH);
}

}  // namespace

std::vector<fs::path> list_folder(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    found.push_back(it->path());
  }
  if (error) throw_system_error(folder, "a readable folder", error.value());
  return found;
}

fs::path folder_of(const fs::path& path) {
  const fs::path folder = path.parent_path();
  return folder.empty() ? fs::path(".") : folder;
}

void sync_folder(const fs::path& folder) {
  const Descriptor fd = open_descriptor(folder, O_RDONLY | O_DIRECTORY);
  if (!fd) throw_system_error(folder, "a folder that can be synced", errno);
  // Some file systems cannot sync a folder.
  if (::fsync(fd.get()) != 0 && errno != EINVAL && errno != ENOTSUP) {
    throw_system_error(folder, "a folder that can be synced", errno);
  }
}

void replace_folder_durably(const fs::path& from, const fs::path& to) {
  if (!is_there(to)) {
    rename_or_throw(from, to);
    sync_folder(folder_of(to));
    return;
  }
  fs::path old = from;
  if (!exchange(from, to)) {
    old = beside(to, kReplaced);
    remove_all_or_throw(old);
    rename_or_throw(to, old);
    rename_or_throw(from, to);
  }
  sync_folder(folder_of(to));
  remove_all_or_throw(old);
}

void link_file(const fs::path& from, const fs::path& to) {
  std::error_code ignored;
  if (fs::equivalent(from, to, ignored) && !fs::is_symlink(to, ignored)) return;
  for (unsigned attempt = 0;; ++attempt) {
    const fs::path temporary = temporary_name(to, attempt);
    if (::link(from.c_str(), temporary.c_str()) == 0) {
      if (::rename(temporary.c_str(), to.c_str()) == 0) return;
      const int error = errno;
      ::unlink(temporary.c_str());
      throw_system_error(to, "a file that can be replaced", error);
    }
    if (errno == EEXIST) continue;
    const bool without_links = errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS ||
                               errno == EMLINK || errno == EXDEV;
    if (!without_links) throw_system_error(to, "a file that can be made", errno);
    const MappedFile file(from);
    write_file_durably(to, [&](FileWriter& out) { out.write(file.bytes()); });
    return;
  }
}

void remove_folder(const fs::path& folder) {
  const fs::path removing = beside(folder, kRemoving);
  remove_all_or_throw(removing);
  rename_or_throw(folder, removing);
  remove_all_or_throw(removing);
}

void remove_leftovers(const fs::path& folder) {
  for (const fs::path& path : list_folder(folder)) {
    const std::string name = path.filename().string();
    if (name.starts_with(kReplaced)) {
      const fs::path original = folder / name.substr(kReplaced.size());
      if (!is_there(original)) {
        rename_or_throw(path, original);
        continue;
      }
    }
    if (name.starts_with(kSaving) || name.starts_with(kRemoving) || name.starts_with(kReplaced) ||
        is_stale_temporary(name)) {
      remove_all_or_throw(path);
    }
  }
}

void move_files_durably(const fs::path& from, const fs::path& to) {
  for (const fs::path& file : list_folder(from)) rename_or_throw(file, to / file.filename());
  sync_folder(to);
  if (::rmdir(from.c_str()) != 0) throw_system_error(from, "a folder that can be removed", errno);
}

}  // namespace prenorm
