// How much memory the system lets this process have, as far as it tells.
//
//   const MemoryLimit limit = memory_limit();
//   if (needed > limit.bytes) refuse(limit.bytes, limit.what);
#pragma once
#include <cstdint>
#include <string_view>

namespace prenorm {

struct MemoryLimit {
  std::uint64_t bytes = 0;  // still to be had
  std::string_view what;    // "the limit of the address space (ulimit -v)", …
};

// The narrowest of: the address space that ulimit -v leaves, the control group's limit, the
// machine's memory and swap. What other processes hold is not taken off: it may become free.
MemoryLimit memory_limit();

}  // namespace prenorm
