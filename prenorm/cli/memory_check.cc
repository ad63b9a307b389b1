#include "prenorm/cli/memory_check.h"

#include <fmt/format.h>

#include <new>

#include "prenorm/base/error.h"
#include "prenorm/cli/format.h"

namespace prenorm::cli {

void MemoryCheck::expect(std::size_t bytes) {
  expected_ = bytes;
  if (bytes > limit_.bytes) fail();
}

void MemoryCheck::within(FunctionRef<void()> work) const {
  try {
    work();
    return;
  } catch (const MemoryError&) {
  } catch (const std::bad_alloc&) {
  }
  fail();
}

void MemoryCheck::fail() const {
  if (expected_ <= limit_.bytes) {  // what is counted was not all, or others took it
    throw MemoryError(
        fmt::format("training: expected {} of memory, found that the system refuses a part of it; "
                    "{} within {}",
                    bytes_text(expected_), bytes_text(limit_.bytes), limit_.what));
  }
  throw MemoryError(fmt::format("training: expected {} of memory, found {}: {}",
                                bytes_text(expected_), bytes_text(limit_.bytes), limit_.what));
}

}  // namespace prenorm::cli
