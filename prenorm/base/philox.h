// Philox 4x32-10: a counter-based random generator (Salmon, Moraes, Dror, Shaw: "Parallel random
// numbers: as easy as 1, 2, 3", SC 2011). A number is a pure function of a key and a position, so
// there is no state to save, to lose or to advance in the wrong order.
#pragma once
#include <array>
#include <cstdint>

namespace prenorm {

using PhiloxBlock = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

constexpr PhiloxBlock philox(PhiloxBlock counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53u} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0],
               static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1],
               static_cast<std::uint32_t>(a)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

// What a random number is for. The values are part of the arithmetic: never renumber.
enum class Purpose : std::uint32_t {
  kInitialise = 1,
  kBatchOrder = 2,
  kEmbeddingDropout = 3,
  kAttentionDropout = 4,
  kAttentionResidualDropout = 5,
  kFeedForwardResidualDropout = 6,
  kSampling = 7,
  kEvaluationOrder = 8,
};

// A stream of random words named by (seed, purpose, step, layer), indexed by element.
struct RandomStream {
  std::uint64_t seed = 0;
  Purpose purpose = Purpose::kInitialise;
  std::uint32_t step = 0;
  std::uint32_t layer = 0;

  // Four words for elements 4 * block … 4 * block + 3. The step, layer and purpose are hashed
  // into the key by one application of the generator under the seed.
  constexpr PhiloxKey key() const {
    const PhiloxKey seed_key{static_cast<std::uint32_t>(seed),
                             static_cast<std::uint32_t>(seed >> 32)};
    const PhiloxBlock mixed =
        philox({step, layer, static_cast<std::uint32_t>(purpose), 0x70726e6du}, seed_key);
    return {mixed[0], mixed[1]};
  }
};

// The random word of one element; `key` is RandomStream::key(), computed once.
constexpr std::uint32_t random_word(PhiloxKey key, std::uint64_t element) {
  const std::uint64_t block = element >> 2;
  return philox({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0, 0},
                key)[element & 3];
}

// Uniform in [0, 1) with 53 bits: uses two words of the stream (elements 2i and 2i + 1).
constexpr double random_double(PhiloxKey key, std::uint64_t i) {
  const std::uint64_t high = random_word(key, 2 * i), low = random_word(key, 2 * i + 1);
  return static_cast<double>((high << 32 | low) >> 11) * 0x1p-53;
}

}  // namespace prenorm
