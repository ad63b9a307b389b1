#include "prenorm/base/philox.h"
#include "tests/tolerances.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace prenorm {
namespace {

// Random123's kat_vectors for philox4x32-10.
TEST(Philox, gives_the_published_known_answers) {
  const std::uint32_t ones = 0xffffffffu;
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}),
            (PhiloxBlock{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}));
  EXPECT_EQ(philox({ones, ones, ones, ones}, {ones, ones}),
            (PhiloxBlock{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}));
  EXPECT_EQ(
      philox({0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}, {0xa4093822u, 0x299f31d0u}),
      (PhiloxBlock{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u}));
}

TEST(Philox, is_usable_at_compile_time) {
  static_assert(philox({0, 0, 0, 0}, {0, 0})[0] == 0x6627e8d5u);
  static_assert(RandomStream{.seed = 1}.key() != RandomStream{.seed = 2}.key());
}

TEST(RandomWord, of_an_element_is_a_word_of_its_block) {
  const PhiloxKey key{3, 4};
  for (const std::uint64_t block : {std::uint64_t{0}, std::uint64_t{5}, std::uint64_t{1} << 32}) {
    const PhiloxBlock words = philox(
        {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0, 0}, key);
    for (std::uint64_t j = 0; j < 4; ++j) EXPECT_EQ(random_word(key, 4 * block + j), words[j]);
  }
}

TEST(RandomStream, has_a_key_of_its_own_for_every_seed_purpose_step_and_layer) {
  std::set<PhiloxKey> keys;
  std::size_t count = 0;
  for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 32}) {
    for (const Purpose purpose : {Purpose::kInitialise, Purpose::kBatchOrder, Purpose::kSampling}) {
      for (std::uint32_t step = 0; step < 20; ++step) {
        for (std::uint32_t layer = 0; layer < 20; ++layer, ++count) {
          keys.insert(RandomStream{seed, purpose, step, layer}.key());
        }
      }
    }
  }
  EXPECT_EQ(keys.size(), count);
}

// The values are part of every saved run: a change of them is a change of the arithmetic.
TEST(RandomStream, stays_what_it_was) {
  const RandomStream stream{.seed = 1337, .purpose = Purpose::kBatchOrder, .step = 12, .layer = 3};
  const PhiloxBlock mixed = philox({12, 3, 2, 0x70726e6du}, {1337, 0});
  EXPECT_EQ(stream.key(), (PhiloxKey{mixed[0], mixed[1]}));
}

TEST(RandomDouble, lies_in_the_unit_interval_with_the_moments_of_a_uniform) {
  const PhiloxKey key = RandomStream{.seed = 9}.key();
  const int n = 100000;
  double sum = 0, squares = 0;
  for (int i = 0; i < n; ++i) {
    const double u = random_double(key, static_cast<std::uint64_t>(i));
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u;
    squares += u * u;
  }
  EXPECT_NEAR(sum / n, 0.5, tolerance::kSigmas * std::sqrt(1.0 / 12 / n));
  EXPECT_NEAR(squares / n, 1.0 / 3, tolerance::kSigmas * std::sqrt(4.0 / 45 / n));
}

TEST(RandomDouble, is_made_of_two_words) {
  const PhiloxKey key{5, 6};
  const std::uint64_t word =
      std::uint64_t{random_word(key, 14)} << 32 | std::uint64_t{random_word(key, 15)};
  EXPECT_EQ(random_double(key, 7), std::ldexp(static_cast<double>(word >> 11), -53));
}

}  // namespace
}  // namespace prenorm
