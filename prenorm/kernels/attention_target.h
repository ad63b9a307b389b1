// The seam between attention's driver (attention.cc: which head, which rows) and its arithmetic
// (attention_target.cc: one copy for each instruction set). Internal to kernels/.
#pragma once
#include "prenorm/kernels/attention.h"

namespace prenorm::kernels {

// Columns of one head, padded to whole groups of lanes.
constexpr Index padded_head(Index head_width) { return round_up(head_width, 16); }

// Keys in blocks: panel of block j is [D][64] at panels + j * 64 * D.
// Dropout of one head's probabilities; no dropout if `threshold` is 0.
struct HeadDropout {
  PhiloxKey key{};
  std::uint32_t threshold = 0;
  float scale = 1.0f;
  std::uint64_t first = 0;  // the element of (query 0, key 0)
  Index keys = 0;           // elements from one query to the next
};

// One head's share of an AttentionMask; null: none.
struct HeadMask {
  const float* added = nullptr;  // of query 0
  Index added_row = 0;
  const unsigned char* key_blocked = nullptr;

  explicit operator bool() const { return added != nullptr || key_blocked != nullptr; }
  // The numbers added to a query's scores from key `k0` on; null: none.
  const float* added_at(Index query, Index k0) const {
    return added == nullptr ? nullptr : added + query * added_row + k0;
  }
};

// Some query rows of one head, forward.
struct AttentionRows {
  const float* q = nullptr;  // [rows, D]
  Index q_row = 0;
  const float* key_panels = nullptr;
  const float* values = nullptr;  // [keys, padded_head(D)]
  Index rows = 0, first = 0;      // `first`: which of the sequence's queries q's first row is
  Index past = 0;                 // the position of query 0 among the keys
  Index keys = 0, head_width = 0;
  bool causal = true;
  HeadMask mask;
  double scale = 1.0;
  HeadDropout dropout;
  float* out = nullptr;  // [rows, D]
  Index out_row = 0;
  float* row_max = nullptr;  // [rows] or null, with row_sum
  double* row_sum = nullptr;
  float* scratch = nullptr;  // forward_scratch(D) floats
};

// One head, backward.
struct AttentionHead {
  const float* q = nullptr;  // [T, D]
  const float* k = nullptr;  // [S, D]
  const float* v = nullptr;  // [S, D]
  Index q_row = 0, k_row = 0, v_row = 0;
  const float* out = nullptr;  // [T, D] each, rows `out_row` apart
  const float* dout = nullptr;
  Index out_row = 0, dout_row = 0;
  const float* row_max = nullptr;  // [T]
  const double* row_sum = nullptr;
  Index time = 0, keys = 0, past = 0, head_width = 0;
  bool causal = true;
  HeadMask mask;
  double scale = 1.0;
  HeadDropout dropout;
  float* dq = nullptr;  // [T, D]
  float* dk = nullptr;  // [S, D]
  float* dv = nullptr;  // [S, D]
  Index dq_row = 0, dk_row = 0, dv_row = 0;
  float* scratch = nullptr;             // backward_scratch(T, S, D) floats
  bool fetch_ahead = false;             // what the pass touches does not stay near by itself
  const AttentionHead* next = nullptr;  // what this thread will probably take next; or null
};

struct AttentionTarget {
  Index (*forward_scratch)(Index head_width);
  Index (*backward_scratch)(Index time, Index keys, Index head_width);
  // Keys [count, D] (rows `row` apart) into panels, zero-padded to whole blocks.
  void (*pack_keys)(const float* k, Index row, Index count, Index head_width, float* panels);
  // Rows [count, D] into rows of padded_head(D), zero-padded.
  void (*pack_rows)(const float* x, Index row, Index count, Index head_width, float* to);
  void (*forward)(const AttentionRows& rows);
  void (*backward)(const AttentionHead& head);
};

const AttentionTarget& attention_target(Isa isa);

}  // namespace prenorm::kernels
