#include "prenorm/kernels/attention.h"

#include <algorithm>
#include <cassert>

#include "prenorm/kernels/attention_target.h"
#include "prenorm/kernels/fetch_ahead.h"
#include "prenorm/kernels/profile.h"

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
  head.keys = shape.key_count();
  head.first = static_cast<std::uint64_t>(row) * static_cast<std::uint64_t>(head.keys);
  return head;
}

HeadMask head_mask(const AttentionMask& mask, Index b, Index h) {
  HeadMask head;
  if (mask.added) {
    head.added = mask.added[b][h].data();
    head.added_row = mask.added.stride(2);
  }
  if (mask.key_blocked) head.key_blocked = mask.key_blocked[b].data();
  return head;
}

[[maybe_unused]] bool fits(const AttentionShape& shape, const AttentionInputs& inputs,
                           const AttentionMask& mask) {
  const Index queries = shape.batch * shape.time, keys = shape.batch * shape.key_count();
  const View<const float, 4>::Shape scores{shape.batch, shape.heads, shape.time, shape.key_count()};
  return inputs.q.dim(0) == queries && inputs.k.dim(0) == keys && inputs.v.dim(0) == keys &&
         inputs.q.dim(1) == shape.width() && inputs.k.dim(1) == shape.width() &&
         inputs.v.dim(1) == shape.width() && (!mask.added || mask.added.shape() == scores) &&
         (!mask.key_blocked || mask.key_blocked.dim(1) == shape.key_count());
}

// Of the two products of the forward pass, over the keys that are seen.
double forward_flops(const AttentionShape& shape) {
  const auto queries = static_cast<double>(shape.time), past = static_cast<double>(shape.past);
  const double pairs = shape.causal ? queries * past + queries * queries / 2
                                    : queries * static_cast<double>(shape.key_count());
  return 4.0 * pairs * static_cast<double>(shape.width()) * static_cast<double>(shape.batch);
}

// One head's keys and values, packed.
struct PackedHead {
  const float* keys;
  const float* values;
  Index count;
};

// What a pass forward reads and writes.
struct Forward {
  const Runtime& run;
  const AttentionShape& shape;
  ConstMatrix q;
  AttentionMask mask;
  Matrix out;
  Vector row_max;
  DoubleVector row_sum;
  AttentionDropout dropout;
  const AttentionTarget& target = attention_target(run.isa());

  Index heads() const { return shape.batch * shape.heads; }
  Index blocks() const { return ceil_div(shape.time, kKeyBlock); }
  std::size_t scratch() const {
    return static_cast<std::size_t>(target.forward_scratch(shape.head_width));
  }

  // Attends from one block of queries of one head; `item` counts heads over all sequences.
  void attend(Index item, Index block, const PackedHead& packed, float* scratch) const {
    const Index h = item % shape.heads, b = item / shape.heads;
    const Index first = block * kKeyBlock, row = b * shape.time + first;
    AttentionRows rows;
    rows.q = q[row].data() + h * shape.head_width;
    rows.q_row = q.stride(0);
    rows.key_panels = packed.keys;
    rows.values = packed.values;
    rows.rows = std::min(kKeyBlock, shape.time - first);
    rows.first = first;
    rows.past = shape.past;
    rows.keys = packed.count;
    rows.head_width = shape.head_width;
    rows.causal = shape.causal;
    rows.mask = head_mask(mask, b, h);
    rows.scale = shape.scale;
    rows.dropout = head_dropout(dropout, shape, b, h);
    rows.out = out[row].data() + h * shape.head_width;
    rows.out_row = out.stride(0);
    if (row_max) {
      const Index at = item * shape.time + first;
      rows.row_max = row_max.data() + at;
      rows.row_sum = row_sum.data() + at;
    }
    rows.scratch = scratch;
    target.forward(rows);
  }

  // From all blocks of all heads, in any order.
  template <typename HeadOf>
  void attend_all(const HeadOf& head_of) const {
    run.reserve_worker_scratch(scratch());
    run.pool().run(heads() * blocks(), [&](Index piece, int worker) {
      const Index item = piece / blocks();
      attend(item, piece % blocks(), head_of(item), run.worker_scratch(worker));
    });
  }
};

}  // namespace

void attention_forward(const Runtime& run, const AttentionShape& shape,
                       const AttentionInputs& inputs, const AttentionMask& mask, Matrix out,
                       Vector row_max, DoubleVector row_sum, const AttentionDropout& dropout) {
  assert(fits(shape, inputs, mask));
  const ProfileScope scope(run, Part::kAttention, forward_flops(shape), 0.0);
  const Forward pass{run, shape, inputs.q, mask, out, row_max, row_sum, dropout};
  const Index keys = shape.key_count(), width = shape.head_width, heads = pass.heads();
  const Index panels = round_up(keys, kKeyBlock) * width;
  const Index one_head = panels + round_up(keys * padded_head(width), kKeyBlock);
  const auto pack = [&](Index item, float* to) {
    const Index row = item / shape.heads * keys, column = item % shape.heads * width;
    pass.target.pack_keys(inputs.k[row].data() + column, inputs.k.stride(0), keys, width, to);
    pass.target.pack_rows(inputs.v[row].data() + column, inputs.v.stride(0), keys, width,
                          to + panels);
    return PackedHead{to, to + panels, keys};
  };
  // With heads enough for all threads each is packed and used by one, from its own cache.
  constexpr Index kHeadsPerThread = 4;
  if (heads >= kHeadsPerThread * run.threads()) {
    run.reserve_worker_scratch(static_cast<std::size_t>(one_head) + pass.scratch());
    run.pool().run(heads, [&](Index item, int worker) {
      float* memory = run.worker_scratch(worker);
      const PackedHead packed = pack(item, memory);
      for (Index block = 0; block < pass.blocks(); ++block) {
        pass.attend(item, block, packed, memory + one_head);
      }
    });
    return;
  }
  float* memory = run.shared_scratch(static_cast<std::size_t>(heads * one_head));
  run.pool().run(heads, [&](Index item, int) { pack(item, memory + item * one_head); });
  pass.attend_all([&](Index item) {
    const float* head = memory + item * one_head;
    return PackedHead{head, head + panels, keys};
  });
}

void attention_backward(const Runtime& run, const AttentionShape& shape, ConstMatrix dout,
                        const AttentionInputs& inputs, const AttentionMask& mask, ConstMatrix out,
                        ConstVector row_max, ConstDoubleVector row_sum,
                        const AttentionGradients& gradients, const AttentionDropout& dropout) {
  assert(fits(shape, inputs, mask));
  const ProfileScope scope(run, Part::kAttention, 2.0 * forward_flops(shape), 0.0);
  const AttentionTarget& target = attention_target(run.isa());
  const Index keys = shape.key_count();
  run.reserve_worker_scratch(
      static_cast<std::size_t>(target.backward_scratch(shape.time, keys, shape.head_width)));
  const auto head_of = [&](Index item) {
    const Index b = item / shape.heads, h = item % shape.heads;
    const Index query = b * shape.time, key = b * keys, column = h * shape.head_width;
    AttentionHead head;
    const auto place = [column](auto matrix, Index row, auto& data, Index& row_stride) {
      data = matrix[row].data() + column;
      row_stride = matrix.stride(0);
    };
    place(inputs.q, query, head.q, head.q_row);
    place(inputs.k, key, head.k, head.k_row);
    place(inputs.v, key, head.v, head.v_row);
    place(out, query, head.out, head.out_row);
    place(dout, query, head.dout, head.dout_row);
    place(gradients.dq, query, head.dq, head.dq_row);
    place(gradients.dk, key, head.dk, head.dk_row);
    place(gradients.dv, key, head.dv, head.dv_row);
    head.row_max = row_max.data() + item * shape.time;
    head.row_sum = row_sum.data() + item * shape.time;
    head.time = shape.time;
    head.keys = keys;
    head.past = shape.past;
    head.head_width = shape.head_width;
    head.causal = shape.causal;
    head.mask = head_mask(mask, b, h);
    head.scale = shape.scale;
    head.dropout = head_dropout(dropout, shape, b, h);
    return head;
  };
  const Index heads = shape.batch * shape.heads;
  // Of eight matrices of the shape's size.
  const bool far = 8 * shape.batch * shape.time * shape.width() > FetchAhead::kNearFloats;
  run.pool().run(heads, [&](Index item, int worker) {
    AttentionHead head = head_of(item), next;
    head.scratch = run.worker_scratch(worker);
    head.fetch_ahead = far;
    if (far && item + 1 < heads) {
      next = head_of(item + 1);
      head.next = &next;
    }
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

void attention_cached(const Runtime& run, const AttentionShape& shape, ConstMatrix qkv,
                      KvCache& cache, Matrix out) {
  const Index past = shape.past;
  assert(past + shape.time <= cache.capacity());
  const ProfileScope scope(run, Part::kAttention, forward_flops(shape), 0.0);
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
  const Forward pass{run, shape, split_qkv(qkv).q, {}, out, {}, {}, {}};
  pass.attend_all([&](Index item) {
    const Index b = item / shape.heads, h = item % shape.heads;
    return PackedHead{cache.keys(b, h), cache.values(b, h), past + shape.time};
  });
}

}  // namespace prenorm::kernels
