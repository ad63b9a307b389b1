// Fetches what will be needed soon into the core's second cache, a few lines at a time: rows that
// lie apart are not guessed by the processor, and many lines at once would hold up its own misses.
#pragma once
#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>

#include "prenorm/base/index.h"

namespace prenorm::kernels {

class FetchAhead {
 public:
  // Work on fewer floats finds them near already: fetching would cost up to 7 % and save nothing.
  static constexpr Index kNearFloats = Index{3} << 19;

  // `rows` rows of `columns` floats, `row` floats apart; at most kMost times.
  void add(const float* from, Index row, Index rows, Index columns) {
    if (rows <= 0 || columns <= 0) return;
    assert(count_ < kMost);
    if (count_ == 0) begin_row(from, columns);
    blocks_[count_++] = {from, row, rows, columns};
    lines_ += rows * (columns / kLineFloats + 1);
  }

  // From now on fetch() takes so many lines that `times` calls are enough.
  void spread_over(Index times) { share_ = (lines_ + times - 1) / std::max<Index>(times, 1); }

  void fetch() {
    take_share(
        [](std::uintptr_t line) { __builtin_prefetch(reinterpret_cast<const void*>(line), 0, 2); });
  }

  // Calls use(address) for each line of the next share.
  template <typename Use>
  void take_share(const Use& use) {
    for (Index n = 0; n < share_ && at_ < count_; ++n) {
      use(line_);
      line_ += kLineBytes;
      if (line_ >= end_) next_row();
    }
  }

 private:
  static constexpr std::size_t kMost = 8;
  static constexpr std::uintptr_t kLineBytes = 64;
  static constexpr Index kLineFloats = kLineBytes / sizeof(float);

  struct Block {
    const float* from;
    Index row, rows, columns;
  };

  void begin_row(const float* from, Index columns) {
    line_ = reinterpret_cast<std::uintptr_t>(from) / kLineBytes * kLineBytes;
    end_ = reinterpret_cast<std::uintptr_t>(from + columns);
  }

  void next_row() {
    Block& block = blocks_[at_];
    block.from += block.row;
    if (--block.rows == 0 && ++at_ == count_) return;
    begin_row(blocks_[at_].from, blocks_[at_].columns);
  }

  std::array<Block, kMost> blocks_;
  std::size_t count_ = 0, at_ = 0;
  Index lines_ = 0, share_ = 0;
  std::uintptr_t line_ = 0, end_ = 0;
};

}  // namespace prenorm::kernels
