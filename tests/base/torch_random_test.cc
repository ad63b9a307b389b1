#include "prenorm/base/torch_random.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <vector>

namespace prenorm {
namespace {

std::vector<float> normal(TorchGenerator& generator, double deviation, std::size_t count) {
  std::vector<float> out(count);
  generator.normal(deviation, out);
  return out;
}

// The numbers of this file are what torch 2.13 gives on x86-64 with AVX2.

TEST(TorchGenerator, fills_blocks_of_16_and_draws_the_last_16_anew) {
  TorchGenerator generator(1337);
  const std::vector<float> x = normal(generator, 0.02, 40);  // torch.empty(40).normal_(0, 0.02)
  const std::pair<std::size_t, float> recorded[] = {
      {0, 0x1.d9e1c2p-9f},   {1, -0x1.6ef06ep-10f}, {8, 0x1.d95e04p-8f},  {15, 0x1.f9b524p-6f},
      {16, 0x1.b9fbb6p-6f},  {23, 0x1.8356e0p-7f},  {24, 0x1.788114p-6f}, {31, 0x1.30702cp-7f},
      {32, -0x1.de2a78p-7f}, {39, -0x1.da7cc0p-6f}};
  for (const auto& [i, value] : recorded) EXPECT_EQ(x[i], value) << i;
}

TEST(TorchGenerator, keeps_the_second_of_a_pair_from_one_small_tensor_to_the_next) {
  TorchGenerator generator(1337);
  generator.skip_uniform(5);
  EXPECT_EQ(normal(generator, 0.5, 5),
            (std::vector<float>{0x1.5be28ap-4f, 0x1.4b51cap-1f, 0x1.481b14p-1f, 0x1.54abeep-2f,
                                0x1.9a687ap-1f}));
  const std::vector<float> large = normal(generator, 1.0, 32);  // does not touch the kept number
  EXPECT_EQ(large.front(), -0x1.1dfc74p-3f);
  EXPECT_EQ(large.back(), -0x1.75912ep-1f);
  EXPECT_EQ(normal(generator, 2.0, 4),
            (std::vector<float>{0x1.d13beap+1f, 0x1.5a23cep+0f, 0x1.ccb0dap+0f, -0x1.f70478p-3f}));
}

TEST(TorchGenerator, has_every_bit_of_a_hundred_thousand_numbers) {
  TorchGenerator generator(3);
  std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a over 32-bit words
  for (const float x : normal(generator, 0.02, 100003)) {
    hash = (hash ^ std::bit_cast<std::uint32_t>(x)) * 0x100000001b3u;
  }
  EXPECT_EQ(hash, 0x964c6cdd7e01d652u);
}

TEST(TorchGenerator, skips_what_it_would_draw) {
  for (const std::size_t count : {1, 2, 3, 15, 16, 17, 31, 32, 1000}) {
    TorchGenerator drawn(5), skipped(5);
    for (int times = 0; times < 3; ++times) {
      normal(drawn, 1.0, count);
      skipped.skip_normal(count);
    }
    EXPECT_EQ(normal(drawn, 1.0, 3), normal(skipped, 1.0, 3)) << count;
    EXPECT_EQ(normal(drawn, 1.0, 16), normal(skipped, 1.0, 16)) << count;
  }
}

TEST(TorchGenerator, takes_the_low_32_bits_of_a_seed) {
  TorchGenerator low(1337), high((std::uint64_t{1} << 32) + 1337), other(1338);
  const std::vector<float> x = normal(low, 1.0, 20);
  EXPECT_EQ(normal(high, 1.0, 20), x);
  EXPECT_NE(normal(other, 1.0, 20), x);
}

}  // namespace
}  // namespace prenorm
