#include "prenorm/cli/memory_check.h"

#include <gtest/gtest.h>

#include <limits>
#include <new>
#include <string>

#include "prenorm/base/error.h"

namespace prenorm::cli {
namespace {

constexpr std::size_t kTooMuch = std::numeric_limits<std::size_t>::max() / 2;

TEST(MemoryCheckTest, what_no_machine_has_is_refused_with_both_numbers) {
  MemoryCheck memory;
  EXPECT_NO_THROW(memory.expect(1000));
  try {
    memory.expect(kTooMuch);
    ADD_FAILURE() << "no error";
  } catch (const MemoryError& error) {
    const std::string text = error.what();
    EXPECT_TRUE(text.starts_with("training: expected ")) << text;
    EXPECT_NE(text.find(" of memory, found "), std::string::npos) << text;
  }
}

TEST(MemoryCheckTest, memory_that_the_system_refuses_is_the_same_error) {
  MemoryCheck memory;
  memory.expect(1000);
  EXPECT_NO_THROW(memory.within([] {}));
  for (const bool typed : {false, true}) {
    try {
      memory.within([&] {
        if (typed) throw MemoryError("memory: expected another 5 bytes, found none left");
        throw std::bad_alloc();
      });
      ADD_FAILURE() << "no error";
    } catch (const MemoryError& error) {
      EXPECT_TRUE(
          std::string(error.what()).starts_with("training: expected 1.0 kB of memory, found "))
          << error.what();
    }
  }
  EXPECT_THROW(memory.within([] { throw ConfigError("other"); }), ConfigError);
}

}  // namespace
}  // namespace prenorm::cli
