#include "prenorm/tensor/arena.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "prenorm/tensor/buffer.h"

namespace prenorm {
namespace {

struct Plan {
  Matrix a, shared_first, shared_second;
  DoubleVector b;
  Vector last;
};

Plan plan(Arena& arena) {
  Plan p;
  p.a = arena.matrix(3, 5);
  p.b = arena.take<double, 1>({7});
  arena.overlap([&] { p.shared_first = arena.matrix(10, 10); },
                [&] { p.shared_second = arena.matrix(4, 4); });
  p.last = arena.vector(1);
  return p;
}

TEST(Arena, places_what_it_measured) {
  Arena measure;
  EXPECT_EQ(plan(measure).a.data(), nullptr);
  EXPECT_EQ(plan(measure = Arena()).a.dim(1), 5);
  // 60, 56, the larger of 400 and 64, and 4 bytes, each on 64-byte lines.
  EXPECT_EQ(measure.used(), 64u + 64u + 448u + 64u);
  const Buffer memory(measure.used());
  Arena place(memory.bytes());
  const Plan p = plan(place);
  EXPECT_EQ(place.used(), measure.used());
  const auto* start = reinterpret_cast<const float*>(memory.data());
  EXPECT_EQ(p.a.data(), start);
  EXPECT_EQ(reinterpret_cast<const float*>(p.b.data()), start + 16);
  EXPECT_EQ(p.shared_first.data(), start + 32);
  EXPECT_EQ(p.shared_second.data(), p.shared_first.data());
  EXPECT_EQ(p.last.data(), start + 32 + 112);
}

TEST(Arena, aligns_everything_to_a_cache_line) {
  const Buffer memory(1 << 16);
  Arena place(memory.bytes());
  for (const Index n : {1, 3, 16, 17, 100}) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(place.vector(n).data()) % Arena::kAlignment, 0u);
  }
}

TEST(Arena, refuses_to_place_more_than_its_storage) {
  const Buffer memory(4096);
  Arena place(memory.bytes());
  place.vector(1024);
  EXPECT_THROW(place.vector(1), Error);
}

}  // namespace
}  // namespace prenorm
