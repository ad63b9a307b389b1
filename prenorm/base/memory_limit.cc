#include "prenorm/base/memory_limit.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "prenorm/base/error.h"
#include "prenorm/base/file.h"

namespace prenorm {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

// A file of the system's own; empty where it has none.
std::string system_text(const fs::path& path) {
  try {
    return read_file(path);
  } catch (const IoError&) {
    return "";
  }
}

// The number behind the first `key`, white space passed over.
std::optional<std::uint64_t> number_after(std::string_view text, std::string_view key) {
  std::size_t at = text.find(key);
  if (at == std::string_view::npos) return std::nullopt;
  at = text.find_first_not_of(" \t", at + key.size());
  if (at == std::string_view::npos) return std::nullopt;
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), value);
  return error == std::errc() ? std::optional(value) : std::nullopt;
}

std::uint64_t less(std::uint64_t total, std::uint64_t held) {
  return total == kUnlimited ? total : total - std::min(total, held);
}

// Of the group that this process is in and of those around it.
std::uint64_t control_group_limit() {
  std::uint64_t least = kUnlimited;
  const auto take = [&](const fs::path& file) {
    if (const auto limit = number_after(system_text(file), "")) least = std::min(least, *limit);
  };
  const fs::path root = "/sys/fs/cgroup";
  take(root / "memory.max");
  take(root / "memory/memory.limit_in_bytes");
  const std::string groups = system_text("/proc/self/cgroup");
  const std::size_t at = groups.find("0::/");
  if (at != std::string::npos) {
    const std::size_t begin = at + 4;
    fs::path group = groups.substr(begin, groups.find('\n', begin) - begin);
    for (; !group.empty(); group = group.parent_path()) take(root / group / "memory.max");
  }
  return least;
}

}  // namespace

MemoryLimit memory_limit() {
  constexpr std::uint64_t kKilobyte = 1024;
  const std::string status = system_text("/proc/self/status");
  const std::uint64_t mapped = number_after(status, "VmSize:").value_or(0) * kKilobyte;
  const std::uint64_t resident = number_after(status, "VmRSS:").value_or(0) * kKilobyte;

  MemoryLimit narrowest{kUnlimited, "no limit"};
  const auto take = [&](std::uint64_t bytes, std::string_view what) {
    if (bytes < narrowest.bytes) narrowest = {bytes, what};
  };
  rlimit space{};
  if (::getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY) {
    take(less(space.rlim_cur, mapped), "the limit of the address space (ulimit -v)");
  }
  take(less(control_group_limit(), resident), "the limit of the control group");
  const std::string machine = system_text("/proc/meminfo");
  if (const auto memory = number_after(machine, "MemTotal:")) {
    const std::uint64_t swap = number_after(machine, "SwapTotal:").value_or(0);
    take(less((*memory + swap) * kKilobyte, resident), "this machine's memory and swap");
  }
  return narrowest;
}

}  // namespace prenorm
