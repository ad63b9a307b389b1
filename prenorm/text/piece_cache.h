// Remembers where in the output the tokens of a piece of text stand, so that a word that comes
// again is copied instead of merged anew. It lives as long as one call that encodes: nothing is
// shared.
//
//   PieceCache cache(text.size());
//   if (const auto* known = cache.find(piece)) ... known->begin, known->count
//   cache.insert(piece, begin, count);
//
// A table of fixed size in which a newcomer takes the place of who was there.
#pragma once
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace prenorm {

class PieceCache {
 public:
  // Longer pieces hardly come again.
  static constexpr std::size_t kLongestPiece = 64;

  struct Entry {
    const char* text = nullptr;
    std::size_t begin = 0;  // in the output
    std::uint32_t length = 0, count = 0;
  };

  // For a text of this many bytes, which must outlive the cache.
  explicit PieceCache(std::size_t bytes)
      : entries_(std::bit_ceil(std::clamp<std::size_t>(bytes / 8, 16, 1u << 16))),
        shift_(64 - std::countr_zero(entries_.size())) {}

  const Entry* find(std::string_view piece) const {
    const Entry& entry = entries_[slot_of(piece)];
    const bool same =
        entry.length == piece.size() && std::memcmp(entry.text, piece.data(), piece.size()) == 0;
    return same ? &entry : nullptr;
  }
  void insert(std::string_view piece, std::size_t begin, std::size_t count) {
    entries_[slot_of(piece)] = {piece.data(), begin, static_cast<std::uint32_t>(piece.size()),
                                static_cast<std::uint32_t>(count)};
  }

 private:
  // Requires: 1 to kLongestPiece bytes.
  std::size_t slot_of(std::string_view piece) const {
    constexpr std::uint64_t kMultiplier = 0x9E3779B97F4A7C15u;
    const char* text = piece.data();
    const std::size_t n = piece.size();
    std::uint64_t hash = n;
    if (n >= 8) {
      for (std::size_t i = 0; i + 8 < n; i += 8) {
        hash = (hash ^ load<std::uint64_t>(text + i)) * kMultiplier;
        hash ^= hash >> 32;
      }
      hash ^= load<std::uint64_t>(text + n - 8);
    } else if (n >= 4) {
      hash ^= std::uint64_t{load<std::uint32_t>(text)} << 32 | load<std::uint32_t>(text + n - 4);
    } else {
      const auto byte = [&](std::size_t i) {
        return static_cast<std::uint64_t>(static_cast<unsigned char>(text[i]));
      };
      hash ^= byte(0) << 32 | byte(n / 2) << 40 | byte(n - 1) << 48;
    }
    hash *= kMultiplier;
    hash ^= hash >> 32;
    return static_cast<std::size_t>(hash * kMultiplier >> shift_);
  }

  template <typename T>
  static T load(const char* from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
  }

  std::vector<Entry> entries_;
  int shift_;
};

}  // namespace prenorm
