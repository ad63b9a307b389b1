// Multi-head attention over packed heads, without a [T, T] matrix (Dao et al. 2022, by blocks of
// keys with an online softmax):
//
//   o_t = Σ_{s ≤ t} softmax_s(q_t · k_s / sqrt(D)) v_s
//
// Keys are taken in blocks of 64 aligned at key 0, in ascending order; one row's arithmetic depends
// on that row and the keys it sees, not on the other rows. A key that a row may not see contributes
// exactly nothing, not even a NaN.
#pragma once
#include "prenorm/kernels/dropout.h"
#include "prenorm/kernels/runtime.h"
#include "prenorm/tensor/buffer.h"
#include "prenorm/tensor/view.h"

namespace prenorm::kernels {

constexpr Index kKeyBlock = 64;  // part of the arithmetic, not a tuning knob

struct AttentionShape {
  Index batch = 1, time = 1, heads = 1, head_width = 1;
  bool causal = true;
  double scale = 1.0;  // of the scores: 1 / sqrt(head_width)

  Index width() const { return heads * head_width; }
};

// Dropout of the attention probabilities: element ((b H + h) T + t) T + s, b counted over the whole
// step.
struct AttentionDropout {
  Dropout drop;
  Index first_sequence = 0;
};

// qkv: [B·T, 3 C], q, k, v side by side, head h in columns [h D, (h + 1) D) of each; out: [B·T, C];
// row_max, row_sum: [B·H·T] of the softmax, for the backward pass. Overwrites out and both.
void attention_forward(const Runtime& run, const AttentionShape& shape, ConstMatrix qkv, Matrix out,
                       Vector row_max, Vector row_sum, const AttentionDropout& dropout);

// Overwrites dqkv: [B·T, 3 C]. out, row_max, row_sum are the forward pass's.
void attention_backward(const Runtime& run, const AttentionShape& shape, ConstMatrix dout,
                        ConstMatrix qkv, ConstMatrix out, ConstVector row_max, ConstVector row_sum,
                        Matrix dqkv, const AttentionDropout& dropout);

// The keys and values of the tokens seen so far, in the order in which the kernel reads them.
class KvCache {
 public:
  KvCache() = default;
  // Room for `capacity` tokens of each of `batch` sequences.
  KvCache(Index batch, Index heads, Index head_width, Index capacity);
  Index capacity() const { return capacity_; }
  static std::size_t bytes(Index batch, Index heads, Index head_width, Index capacity);

  float* keys(Index b, Index h) const;    // [capacity / 64][D][64]
  float* values(Index b, Index h) const;  // [capacity][round_up(D, 16)]

 private:
  Buffer memory_;
  Index heads_ = 0, head_width_ = 0, capacity_ = 0;
};

// Appends the keys and values of qkv (shape.time new tokens a sequence, the first at position
// `past`) and attends from each new token to all before it. out: [B·T, C]. The bits are those of
// attention_forward on the whole sequence. Requires: past + shape.time <= cache.capacity().
void attention_cached(const Runtime& run, const AttentionShape& shape, ConstMatrix qkv, Index past,
                      KvCache& cache, Matrix out);

}  // namespace prenorm::kernels
