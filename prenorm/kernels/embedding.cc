// Token and position embedding. The only arithmetic is one float addition an element, so there is
// nothing to write per instruction set.
#include "prenorm/kernels/embedding.h"

#include <algorithm>
#include <cassert>

#include "prenorm/kernels/each_row.h"
#include "prenorm/kernels/profile.h"

namespace prenorm::kernels {
namespace {

// to[i] += from[i].
void add_to(const float* from, Index count, float* to) {
  for (Index i = 0; i < count; ++i) to[i] += from[i];
}

}  // namespace

void embedding_forward(const Runtime& run, TokenMatrix tokens, ConstMatrix token_weight,
                       ConstMatrix position_weight, Index first_position, Matrix y) {
  const ProfileScope scope(run, Part::kOther, 0.0, 0.0);
  const Index time = tokens.dim(1), rows = tokens.dim(0) * time, width = y.dim(1);
  if (rows == 0 || width == 0) return;
  each_row(run, rows, width, [&](Index n) {
    const TokenId id = tokens[n / time][n % time];
    assert(id >= 0 && id < token_weight.dim(0));
    const float* token = token_weight[id].data();
    const float* position = position_weight[first_position + n % time].data();
    float* out = y[n].data();
    for (Index i = 0; i < width; ++i) out[i] = token[i] + position[i];
  });
}

// A weight's gradient is one chain of additions over the rows that used it, in ascending row order,
// starting from what it holds. A chain can be cut anywhere, so micro-batches of any size give the
// bits of the one large batch.
void embedding_backward(const Runtime& run, TokenMatrix tokens, ConstMatrix dy,
                        Matrix dtoken_weight, Matrix dposition_weight) {
  const ProfileScope scope(run, Part::kOther, 0.0, 0.0);
  const Index time = tokens.dim(1), rows = tokens.dim(0) * time, width = dy.dim(1);
  if (rows == 0 || width == 0) return;
  // Strips of columns of whole cache lines; narrow models have few, so that a strip is at least 64
  // bytes and at most 256.
  const Index strip = width >= 64 * run.threads() ? 64 : 16;
  run.pool().run(ceil_div(width, strip), [&](Index piece, int) {
    const Index first = piece * strip, count = std::min(strip, width - first);
    for (Index n = 0; n < rows; ++n) {
      const TokenId id = tokens[n / time][n % time];
      assert(id >= 0 && id < dtoken_weight.dim(0));
      const float* from = dy[n].data() + first;
      add_to(from, count, dtoken_weight[id].data() + first);
      add_to(from, count, dposition_weight[n % time].data() + first);
    }
  });
}

}  // namespace prenorm::kernels
