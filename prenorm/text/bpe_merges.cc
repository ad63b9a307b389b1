#include "prenorm/text/bpe_merges.h"

#include <algorithm>
#include <bit>
#include <functional>

namespace prenorm {
namespace {

constexpr std::uint32_t kEnd = 0xFFFFFFFFu;
// Where a heap becomes faster than looking through all pairs.
constexpr std::size_t kLongestShortPiece = 100;

}  // namespace

BpeMerges::BpeMerges(std::span<const BpeMerge> merges) {
  // At most half full; a power of two.
  const std::size_t size = std::bit_ceil(std::max<std::size_t>(2 * merges.size(), 8));
  slots_.resize(size);
  mask_ = size - 1;
  shift_ = 64 - std::countr_zero(size);
  std::uint32_t rank = 0;
  for (const BpeMerge& merge : merges) {
    const std::uint64_t key = key_of(merge.left, merge.right);
    std::size_t i = slot_of(key);
    while (slots_[i].key != kFree && slots_[i].key != key) i = (i + 1) & mask_;
    slots_[i] = {key, {rank++, merge.result}};
  }
}

void BpeMerger::merge(std::vector<TokenId>& symbols) {
  if (symbols.size() <= kLongestShortPiece) {
    merge_short(symbols);
  } else {
    merge_long(symbols);
  }
}

void BpeMerger::merge_short(std::vector<TokenId>& symbols) {
  std::size_t n = symbols.size();
  if (n < 2) return;
  pairs_.resize(n);
  for (std::size_t i = 0; i + 1 < n; ++i) pairs_[i] = merges_.find(symbols[i], symbols[i + 1]);
  while (n > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < n; ++i) {
      if (pairs_[i].rank < pairs_[best].rank) best = i;
    }
    if (pairs_[best].rank == BpeMerges::kNone) break;
    symbols[best] = pairs_[best].result;
    for (std::size_t i = best + 1; i + 1 < n; ++i) {
      symbols[i] = symbols[i + 1];
      pairs_[i] = pairs_[i + 1];
    }
    --n;
    if (best > 0) pairs_[best - 1] = merges_.find(symbols[best - 1], symbols[best]);
    if (best + 1 < n) pairs_[best] = merges_.find(symbols[best], symbols[best + 1]);
  }
  symbols.resize(n);
}

void BpeMerger::merge_long(std::vector<TokenId>& symbols) {
  const auto n = static_cast<std::uint32_t>(symbols.size());
  pairs_.assign(n, {});
  previous_.resize(n);
  next_.resize(n);
  heap_.clear();
  const auto place = [](BpeMerges::Entry pair, std::uint32_t at) {
    return std::uint64_t{pair.rank} << 32 | at;
  };
  for (std::uint32_t i = 0; i < n; ++i) {
    previous_[i] = i == 0 ? kEnd : i - 1;
    next_[i] = i + 1 == n ? kEnd : i + 1;
    if (i + 1 == n) break;
    pairs_[i] = merges_.find(symbols[i], symbols[i + 1]);
    if (pairs_[i].rank != BpeMerges::kNone) heap_.push_back(place(pairs_[i], i));
  }
  std::ranges::make_heap(heap_, std::greater<>());

  // Looks the pair at `at` up anew, after one of its symbols has changed.
  const auto renew = [&](std::uint32_t at) {
    pairs_[at] =
        next_[at] == kEnd ? BpeMerges::Entry() : merges_.find(symbols[at], symbols[next_[at]]);
    if (pairs_[at].rank == BpeMerges::kNone) return;
    heap_.push_back(place(pairs_[at], at));
    std::ranges::push_heap(heap_, std::greater<>());
  };
  while (!heap_.empty()) {
    std::ranges::pop_heap(heap_, std::greater<>());
    const auto at = static_cast<std::uint32_t>(heap_.back());
    const auto rank = static_cast<std::uint32_t>(heap_.back() >> 32);
    heap_.pop_back();
    if (pairs_[at].rank != rank) continue;  // the pair has changed since
    const std::uint32_t joined = next_[at];
    symbols[at] = pairs_[at].result;
    pairs_[joined] = {};
    next_[at] = next_[joined];
    if (next_[at] != kEnd) previous_[next_[at]] = at;
    renew(at);
    if (previous_[at] != kEnd) renew(previous_[at]);
  }
  std::size_t count = 0;
  for (std::uint32_t i = 0; i != kEnd; i = next_[i]) symbols[count++] = symbols[i];
  symbols.resize(count);
}

}  // namespace prenorm
