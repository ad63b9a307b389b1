// Applies the merges of a byte-level BPE to one piece of text: the merge of lowest rank first, of
// equal ones the leftmost, until none applies.
//
//   BpeMerger merger(merges);
//   symbols = {...};          // the ids of the piece's bytes
//   merger.merge(symbols);    // the ids of its tokens
//
// A short piece is searched over and over; a long one keeps its pairs in a heap: n log n, and about
// 40 bytes a symbol.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "prenorm/text/bpe_model.h"

namespace prenorm {

// The merges by their pair: a hash table that never changes.
class BpeMerges {
 public:
  static constexpr std::uint32_t kNone = 0xFFFFFFFFu;
  struct Entry {
    std::uint32_t rank = kNone;
    TokenId result = -1;
  };

  BpeMerges() : BpeMerges(std::span<const BpeMerge>()) {}
  // Of a pair that is there twice, the last counts, as in Python's and Hugging Face's readers.
  explicit BpeMerges(std::span<const BpeMerge> merges);

  // kNone where the pair does not merge. Requires: ids are not negative.
  Entry find(TokenId left, TokenId right) const {
    const std::uint64_t key = key_of(left, right);
    for (std::size_t i = slot_of(key);; i = (i + 1) & mask_) {
      const Slot& slot = slots_[i];
      if (slot.key == key) return slot.entry;
      if (slot.key == kFree) return {};
    }
  }

 private:
  static constexpr std::uint64_t kFree = ~std::uint64_t{0};
  struct Slot {
    std::uint64_t key = kFree;
    Entry entry;
  };
  static std::uint64_t key_of(TokenId left, TokenId right) {
    return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 |
           static_cast<std::uint32_t>(right);
  }
  std::size_t slot_of(std::uint64_t key) const {
    return static_cast<std::size_t>(key * 0x9E3779B97F4A7C15u >> shift_) & mask_;
  }

  std::vector<Slot> slots_;
  std::size_t mask_ = 0;
  int shift_ = 0;
};

// The working memory of merging; one a thread.
class BpeMerger {
 public:
  explicit BpeMerger(const BpeMerges& merges) : merges_(merges) {}

  // Replaces the symbols of one piece by its tokens. Requires: fewer than 2^32 symbols.
  void merge(std::vector<TokenId>& symbols);

 private:
  void merge_short(std::vector<TokenId>& symbols);
  void merge_long(std::vector<TokenId>& symbols);

  const BpeMerges& merges_;
  std::vector<BpeMerges::Entry> pairs_;  // of symbols i and its successor
  std::vector<std::uint32_t> previous_, next_;
  std::vector<std::uint64_t> heap_;  // rank · 2^32 + position, the lowest first
};

}  // namespace prenorm
