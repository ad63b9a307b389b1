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
  Index batch = 1, time = 1;  // sequences, and queries of each
  Index keys = 0;             // of each sequence; 0: as many as queries
  Index heads = 1, head_width = 1;
  bool causal = true;  // query t sees the keys s ≤ past + t
  Index past = 0;      // the first query's position among the keys
  double scale = 1.0;  // of the scores: 1 / sqrt(head_width)

  Index width() const { return heads * head_width; }
  Index key_count() const { return keys == 0 ? time : keys; }
};

// What a query sees besides the causal rule, in the meanings of torch.nn.MultiheadAttention. A
// query that sees no key has the output zero and contributes no gradient.
struct AttentionMask {
  // [B, H, T, S], broadcast by strides of 0: added to the scaled scores; −∞ blocks. Empty: none.
  View<const float, 4> added;
  // [B, S]: not 0 blocks the key for every query of the sequence. Empty: none.
  View<const unsigned char, 2> key_blocked;

  explicit operator bool() const { return static_cast<bool>(added) || key_blocked; }
};

// Dropout of the attention probabilities: element ((b H + h) T + t) S + s, b counted over the whole
// step.
struct AttentionDropout {
  Dropout drop;
  Index first_sequence = 0;
};

// q: [B·T, C]; k, v: [B·S, C]; head h in columns [h D, (h + 1) D) of each.
struct AttentionInputs {
  ConstMatrix q, k, v;
};
struct AttentionGradients {
  Matrix dq, dk, dv;
};

// The three thirds of packed rows [N, 3 C].
inline AttentionInputs split_qkv(ConstMatrix qkv) {
  const Index width = qkv.dim(1) / 3;
  return {qkv.columns(0, width), qkv.columns(width, width), qkv.columns(2 * width, width)};
}
inline AttentionGradients split_qkv(Matrix qkv) {
  const Index width = qkv.dim(1) / 3;
  return {qkv.columns(0, width), qkv.columns(width, width), qkv.columns(2 * width, width)};
}

// out: [B·T, C]; row_max, row_sum: [B·H·T] of the softmax, for the backward pass, or both empty.
// Overwrites out and both.
void attention_forward(const Runtime& run, const AttentionShape& shape,
                       const AttentionInputs& inputs, const AttentionMask& mask, Matrix out,
                       Vector row_max, DoubleVector row_sum, const AttentionDropout& dropout);

// Overwrites the gradients, which overlap no operand. out, row_max, row_sum are the forward pass's.
void attention_backward(const Runtime& run, const AttentionShape& shape, ConstMatrix dout,
                        const AttentionInputs& inputs, const AttentionMask& mask, ConstMatrix out,
                        ConstVector row_max, ConstDoubleVector row_sum,
                        const AttentionGradients& gradients, const AttentionDropout& dropout);

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

// Appends the keys and values of qkv [B·T, 3 C] (shape.time new tokens a sequence, the first at
// position shape.past) and attends from each new token to all before it. out: [B·T, C]. The bits
// are those of attention_forward on the whole sequence.
// Requires: shape.past + shape.time <= cache.capacity().
void attention_cached(const Runtime& run, const AttentionShape& shape, ConstMatrix qkv,
                      KvCache& cache, Matrix out);

}  // namespace prenorm::kernels
