#include "prenorm/tensor/buffer.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <utility>

#include "prenorm/base/error.h"

namespace prenorm {
namespace {

TEST(Buffer, is_zeroed_writable_and_at_least_as_large_as_asked) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{4096}, std::size_t{5 << 20}}) {
    const Buffer buffer(bytes);
    ASSERT_GE(buffer.size(), bytes);
    for (const std::byte b : buffer.bytes()) ASSERT_EQ(b, std::byte{0});
    buffer.bytes().back() = std::byte{1};
    EXPECT_EQ(buffer.floats().size(), buffer.size() / 4);
  }
}

TEST(Buffer, is_aligned_to_huge_pages_once_it_fills_one) {
  const Buffer small(100), large(std::size_t{3} << 20);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(small.data()) % 4096, 0u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(large.data()) % (std::size_t{1} << 21), 0u);
}

TEST(Buffer, moves_its_memory) {
  Buffer a(100);
  a.data()[7] = std::byte{9};
  const std::byte* memory = a.data();
  Buffer b = std::move(a);
  EXPECT_EQ(b.data(), memory);
  EXPECT_EQ(b.data()[7], std::byte{9});
  Buffer c(1 << 20);
  c = std::move(b);
  EXPECT_EQ(c.data(), memory);
}

TEST(Buffer, of_nothing_holds_nothing) {
  EXPECT_EQ(Buffer().size(), 0u);
  EXPECT_EQ(Buffer(0).data(), nullptr);
}

TEST(Buffer, refuses_sizes_that_the_system_cannot_give) {
  for (const std::size_t bytes :
       {std::numeric_limits<std::size_t>::max(), std::size_t{1} << 60, std::size_t{1} << 48}) {
    EXPECT_THROW(Buffer{bytes}, Error) << bytes;
  }
}

}  // namespace
}  // namespace prenorm
