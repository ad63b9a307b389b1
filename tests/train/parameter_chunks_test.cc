#include "prenorm/train/parameter_chunks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "prenorm/kernels/adamw.h"

namespace prenorm {
namespace {

void fill(ParameterRegistry& registry) {
  registry.add("wte", {500, 300});  // 150,000: chunks of 65,536, 65,536 and 18,928
  registry.add("bias", {5}, false);
  registry.add("w", {300, 300});  // 90,000: two chunks
  registry.add("tail", {1}, false);
  registry.allocate(true);
}

TEST(ParameterChunks, parts_cover_all_once_and_begin_at_chunks) {
  ParameterRegistry registry;
  fill(registry);
  const std::vector<std::size_t> starts = {0,      65536,  131072, 150000,
                                           150016, 215552, 240016, 240032};
  for (int parts = 1; parts <= 12; ++parts) {
    const ParameterChunks chunks(registry, parts);
    EXPECT_EQ(chunks.parts(), parts);
    EXPECT_EQ(chunks.count(), 7u);
    EXPECT_EQ(chunks.begin(0), 0u);
    EXPECT_EQ(chunks.end(parts - 1), registry.values().size());
    std::size_t counted = 0;
    for (int part = 0; part < parts; ++part) {
      if (part > 0) {
        EXPECT_EQ(chunks.begin(part), chunks.end(part - 1));
      }
      EXPECT_TRUE(std::ranges::find(starts, chunks.begin(part)) != starts.end()) << parts;
      counted += chunks.count(part);
    }
    EXPECT_EQ(counted, 7u);
  }
}

TEST(ParameterChunks, parts_are_as_equal_as_chunks_allow) {
  ParameterRegistry registry;
  registry.add("a", {4096, 1024});  // 64 chunks
  registry.allocate(false);
  for (int parts : {2, 3, 4, 7, 64}) {
    const ParameterChunks chunks(registry, parts);
    const std::size_t fair = registry.values().size() / static_cast<std::size_t>(parts);
    for (int part = 0; part < parts; ++part) {
      EXPECT_LE(chunks.size(part), fair + 65536) << part << " of " << parts;
      EXPECT_GE(chunks.size(part) + 65536, fair) << part << " of " << parts;
    }
  }
}

TEST(ParameterChunks, the_norm_is_that_of_the_parameters_one_after_another) {
  ParameterRegistry registry;
  fill(registry);
  float x = 0.1f;
  for (const Parameter& p : registry) {
    for (float& g : p.grad) g = (x = x * 1.37f - static_cast<float>(static_cast<int>(x * 1.37f)));
  }
  const Runtime run({.threads = 2});
  double sum = 0.0;
  std::vector<double> squares;
  for (const Parameter& p : std::as_const(registry)) {
    sum += kernels::sum_of_squares(run, p.grad);
    std::vector<std::span<const float>> chunks;
    for (std::span<const float> rest = p.grad; !rest.empty();
         rest = rest.subspan(chunks.back().size())) {
      chunks.push_back(rest.first(std::min(rest.size(), std::size_t{kernels::kSquaresChunk})));
    }
    squares.resize(squares.size() + chunks.size());
    kernels::squares_of_chunks(run, chunks, std::span(squares).last(chunks.size()));
  }
  EXPECT_GT(sum, 1.0);
  EXPECT_EQ(ParameterChunks(registry, 3).norm(squares), std::sqrt(sum));
}

}  // namespace
}  // namespace prenorm
