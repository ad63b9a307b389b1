#include "prenorm/train/batch_order.h"

#include <algorithm>
#include <cstddef>

#include "prenorm/base/philox.h"

namespace prenorm {

Index window_start(std::uint64_t seed, Index step, Index sequence, Index windows) {
  const PhiloxKey key =
      RandomStream{
          .seed = seed, .purpose = Purpose::kBatchOrder, .step = static_cast<std::uint32_t>(step)}
          .key();
  const auto index = static_cast<std::uint64_t>(sequence), n = static_cast<std::uint64_t>(windows);
  // The 2^64 values of a draw are cut at the largest multiple of n; a draw above it is repeated.
  const std::uint64_t excess = (0 - n) % n;
  for (std::uint32_t attempt = 0;; ++attempt) {
    const PhiloxBlock words = philox(
        {static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32), attempt, 0},
        key);
    const std::uint64_t draw = std::uint64_t{words[1]} << 32 | words[0];
    if (draw >= excess) return static_cast<Index>((draw - excess) % n);
  }
}

void fill_batch(std::span<const TokenId> tokens, std::uint64_t seed, Index step,
                Index first_sequence, Index block_size, std::span<TokenId> inputs,
                std::span<TokenId> targets) {
  const auto length = static_cast<std::size_t>(block_size);
  const Index windows = token_window_count(static_cast<Index>(tokens.size()), block_size);
  for (std::size_t at = 0; at + length <= inputs.size(); at += length) {
    const Index sequence = first_sequence + static_cast<Index>(at / length);
    const TokenWindow window =
        token_window(tokens, window_start(seed, step, sequence, windows), block_size);
    std::ranges::copy(window.inputs, inputs.subspan(at).begin());
    std::ranges::copy(window.targets, targets.subspan(at).begin());
  }
}

}  // namespace prenorm
