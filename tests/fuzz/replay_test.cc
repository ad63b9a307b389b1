// The fuzzers' targets without a fuzzer, with any compiler: their seeds, every truncation of the
// short ones, and some thousand mutations, the same ones every time.
#include <gtest/gtest.h>

#include <random>

#include "prenorm/base/stopwatch.h"
#include "tests/fuzz/targets.h"

namespace prenorm::fuzz {
namespace {

constexpr double kSecondsPerTarget = 0.5;
constexpr int kMostMutations = 20'000;

class Mutator {
 public:
  std::string mutate(std::string bytes) {
    for (std::size_t times = below(4) + 1; times > 0 && !bytes.empty(); --times) {
      const std::size_t at = below(bytes.size());
      switch (below(6)) {
        case 0:
          bytes[at] = static_cast<char>(bytes[at] ^ 1 << below(8));
          break;
        case 1:
          bytes[at] = static_cast<char>(below(256));
          break;
        case 2:
          bytes.erase(at, below(8) + 1);
          break;
        case 3:
          bytes.insert(at, bytes.substr(below(bytes.size()), below(16)));
          break;
        case 4:
          bytes.insert(at, kPieces[below(kPieces.size())]);
          break;
        case 5:
          bytes.resize(at);
          break;
      }
    }
    return bytes;
  }

 private:
  static constexpr std::array<std::string_view, 16> kPieces = {"\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF",
                                                               "18446744073709551615",
                                                               "-1",
                                                               "1e999",
                                                               "[",
                                                               "{",
                                                               "\"",
                                                               "\\u0000",
                                                               "9223372036854775807",
                                                               "[[[[[[[[[[[[[[[[",
                                                               "null",
                                                               "../",
                                                               "0",
                                                               ",",
                                                               "2147483648",
                                                               "}"};
  std::size_t below(std::size_t limit) { return random_() % limit; }
  std::mt19937_64 random_{12345};
};

TEST(FuzzTargets, accept_their_seeds) {
  for (const Target& target : all_targets()) {
    for (const std::string& seed : target.seeds()) {
      EXPECT_TRUE(target.accepts(seed)) << target.name << ": " << seed.substr(0, 200);
    }
  }
}

TEST(FuzzTargets, take_every_truncation_of_short_seeds) {
  for (const Target& target : all_targets()) {
    for (const std::string& seed : target.seeds()) {
      for (std::size_t n = 0; n < std::min<std::size_t>(seed.size(), 2000); ++n) {
        EXPECT_NO_THROW(target.accepts(seed.substr(0, n))) << target.name << " " << n;
      }
    }
  }
}

TEST(FuzzTargets, take_mutations_of_their_seeds) {
  for (const Target& target : all_targets()) {
    Mutator mutator;
    const std::vector<std::string> seeds = target.seeds();
    int tried = 0, accepted = 0;
    for (const auto start = Clock::now();
         tried < kMostMutations && seconds_since(start) < kSecondsPerTarget; ++tried) {
      const std::string bytes =
          mutator.mutate(seeds[static_cast<std::size_t>(tried) % seeds.size()]);
      try {
        accepted += target.accepts(bytes) ? 1 : 0;
      } catch (const std::exception& error) {
        ADD_FAILURE() << target.name << ": " << error.what() << " for\n" << bytes.substr(0, 1000);
      }
    }
    EXPECT_GT(tried, 10) << target.name;
    EXPECT_LT(accepted, tried) << target.name << " accepts everything";
  }
}

}  // namespace
}  // namespace prenorm::fuzz
