#include "prenorm/kernels/attention.h"

#include <algorithm>
#include <cassert>

#include "prenorm/kernels/attention_target.h"

namespace prenorm::kernels {
namespace {

HeadDropout head_dropout(const AttentionDropout& dropout, const AttentionShape& shape, Index b,
                         Index h) {
  HeadDropout head;
  if (!dropout.drop) return head;
  head.key = dropout.drop.stream.key();
  head.threshold = std::max<std::uint32_t>(1, dropout.drop.threshold());
  head.scale = dropout.drop.scale();
  const Index row = ((dropout.first_sequence + b) * shape.heads + h) * shape.time;
  head.first = static_cast<std::uint64_t>(row) * static_cast<std::uint64_t>(shape.time);
  head.keys = shape.time;
  return head;
}

// One head's keys and values, packed.
struct PackedHead {
  const float* keys;
  const float* values;
  Index count;
};

// Attends from rows [0, shape.time) of every sequence, which stand at positions past + row.
template <typename HeadOf>
void attend(const Runtime& run, const AttentionShape& shape, ConstMatrix qkv, Index past,
            Matrix out, Vector row_max, Vector row_sum, const AttentionDropout& dropout,
            const HeadOf& head_of) {
  const AttentionTarget& target = attention_target(run.isa());
  run.reserve_worker_scratch(static_cast<std::size_t>(target.forward_scratch(shape.head_width)));
  const Index blocks = ceil_div(shape.time, kKeyBlock);
  run.pool().run(shape.batch * shape.heads * blocks, [&](Index item, int worker) {
    const Index block = item % blocks, h = item / blocks % shape.heads;
    const Index b = item / blocks / shape.heads;
    const Index first = block * kKeyBlock, row = b * shape.time + first;
    const PackedHead packed = head_of(b, h);
    AttentionRows rows;
    rows.q = qkv[row].data() + h * shape.head_width;
    rows.q_row = qkv.stride(0);
    rows.key_panels = packed.keys;
    rows.values = packed.values;
    rows.rows = std::min(kKeyBlock, shape.time - first);
    rows.first = past + first;
    rows.keys = packed.count;
    rows.head_width = shape.head_width;
    rows.causal = shape.causal;
    rows.scale = static_cast<float>(shape.scale);
    rows.dropout = head_dropout(dropout, shape, b, h);
    rows.out = out[row].data() + h * shape.head_width;
    rows.out_row = out.stride(0);
    if (row_max) {
      const Index at = (b * shape.heads + h) * shape.time + first;
      rows.row_max = row_max.data() + at;
      rows.row_sum = row_sum.data() + at;
    }
    rows.scratch = run.worker_scratch(worker);
    target.forward(rows);
  });
}

}  // namespace

void attention_forward(const Runtime& run, const AttentionShape& shape, ConstMatrix qkv, Matrix out,
                       Vector row_max, Vector row_sum, const AttentionDropout& dropout) {
  assert(qkv.dim(0) == shape.batch * shape.time && qkv.dim(1) == 3 * shape.width());
  const AttentionTarget& target = attention_target(run.isa());
  const Index panels = round_up(shape.time, kKeyBlock) * shape.head_width;
  const Index one_head = panels + shape.time * padded_head(shape.head_width);
  const Index heads = shape.batch * shape.heads;
  float* packed = run.shared_scratch(static_cast<std::size_t>(heads * one_head));
  run.pool().run(heads, [&](Index item, int) {
    const Index b = item / shape.heads, h = item % shape.heads;
    const float* k = qkv[b * shape.time].data() + shape.width() + h * shape.head_width;
    float* to = packed + item * one_head;
    target.pack_keys(k, qkv.stride(0), shape.time, shape.head_width, to);
    target.pack_rows(k + shape.width(), qkv.stride(0), shape.time, shape.head_width, to + panels);
  });
  attend(run, shape, qkv, 0, out, row_max, row_sum, dropout, [&](Index b, Index h) {
    const float* head = packed + (b * shape.heads + h) * one_head;
    return PackedHead{head, head + panels, shape.time};
  });
}

void attention_backward(const Runtime& run, const AttentionShape& shape, ConstMatrix dout,
                        ConstMatrix qkv, ConstMatrix out, ConstVector row_max, ConstVector row_sum,
                        Matrix dqkv, const AttentionDropout& dropout) {
  const AttentionTarget& target = attention_target(run.isa());
  run.reserve_worker_scratch(
      static_cast<std::size_t>(target.backward_scratch(shape.time, shape.head_width)));
  run.pool().run(shape.batch * shape.heads, [&](Index item, int worker) {
    const Index b = item / shape.heads, h = item % shape.heads;
    const Index row = b * shape.time, column = h * shape.head_width;
    AttentionHead head;
    head.q = qkv[row].data() + column;
    head.k = head.q + shape.width();
    head.v = head.k + shape.width();
    head.qkv_row = qkv.stride(0);
    head.out = out[row].data() + column;
    head.out_row = out.stride(0);
    head.dout = dout[row].data() + column;
    head.dout_row = dout.stride(0);
    head.row_max = row_max.data() + item * shape.time;
    head.row_sum = row_sum.data() + item * shape.time;
    head.time = shape.time;
    head.head_width = shape.head_width;
    head.causal = shape.causal;
    head.scale = static_cast<float>(shape.scale);
    head.dropout = head_dropout(dropout, shape, b, h);
    head.dq = dqkv[row].data() + column;
    head.dk = head.dq + shape.width();
    head.dv = head.dk + shape.width();
    head.dqkv_row = dqkv.stride(0);
    head.scratch = run.worker_scratch(worker);
    target.backward(head);
  });
}

std::size_t KvCache::bytes(Index batch, Index heads, Index head_width, Index capacity) {
  const Index room = round_up(capacity, kKeyBlock);
  return static_cast<std::size_t>(batch * heads * room * (head_width + padded_head(head_width))) *
         sizeof(float);
}

KvCache::KvCache(Index batch, Index heads, Index head_width, Index capacity)
    : memory_(bytes(batch, heads, head_width, capacity)),
      heads_(heads),
      head_width_(head_width),
      capacity_(round_up(capacity, kKeyBlock)) {}

float* KvCache::keys(Index b, Index h) const {
  const Index one = capacity_ * (head_width_ + padded_head(head_width_));
  return memory_.floats().data() + (b * heads_ + h) * one;
}
float* KvCache::values(Index b, Index h) const { return keys(b, h) + capacity_ * head_width_; }

void attention_cached(const Runtime& run, const AttentionShape& shape, ConstMatrix qkv, Index past,
                      KvCache& cache, Matrix out) {
  assert(past + shape.time <= cache.capacity());
  const AttentionTarget& target = attention_target(run.isa());
  const Index width = shape.head_width, padded = padded_head(width);
  run.pool().run(shape.batch * shape.heads, [&](Index item, int) {
    const Index b = item / shape.heads, h = item % shape.heads;
    float* keys = cache.keys(b, h);
    for (Index t = 0; t < shape.time; ++t) {
      const float* k = qkv[b * shape.time + t].data() + shape.width() + h * width;
      const Index s = past + t;
      float* column = keys + s / kKeyBlock * kKeyBlock * width + s % kKeyBlock;
      for (Index d = 0; d < width; ++d) column[d * kKeyBlock] = k[d];
    }
    const float* v = qkv[b * shape.time].data() + 2 * shape.width() + h * width;
    target.pack_rows(v, qkv.stride(0), shape.time, width, cache.values(b, h) + past * padded);
  });
  attend(run, shape, qkv, past, out, {}, {}, {}, [&](Index b, Index h) {
    return PackedHead{cache.keys(b, h), cache.values(b, h), past + shape.time};
  });
}

}  // namespace prenorm::kernels
