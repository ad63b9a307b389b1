#include "prenorm/study/attention_masks.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "prenorm/base/utf8.h"

namespace prenorm {
namespace {

using Values = reference::Tensor<double>;

constexpr double kBlocked = -std::numeric_limits<double>::infinity();

// What is added to the scores; a BOOL of the value `blocks` becomes −∞.
std::vector<double> addends(const TensorFile& file, const Tensor& mask, bool blocks) {
  if (mask.dtype != Dtype::kBool) {
    if (!dtype_is_floating_point(mask.dtype)) {
      file.refuse(mask, "dtype BOOL or a floating-point one", dtype_name(mask.dtype));
    }
    return file.doubles(mask);
  }
  std::vector<double> out;
  out.reserve(mask.bytes.size());
  for (const std::byte b : mask.bytes) out.push_back((b != std::byte{0}) == blocks ? kBlocked : 0);
  return out;
}

// [B, H, T, S] of a mask in any of its shapes.
Values read_attn_mask(const TensorFile& file, const Tensor& mask, const ScoreShape& s) {
  std::vector<Index> shape = mask.shape;
  if (shape.size() == 2) {
    shape.insert(shape.begin(), {1, 1});
  } else if (shape.size() == 3 && shape[0] == s.batch * s.heads) {
    shape[0] = s.batch;
    shape.insert(shape.begin() + 1, s.heads);
  }
  const bool fits = shape.size() == 4 && (shape[0] == 1 || shape[0] == s.batch) &&
                    (shape[1] == 1 || shape[1] == s.heads) && shape[2] == s.queries &&
                    shape[3] == s.keys;
  if (!fits) {
    const std::vector<Index> flat{s.queries, s.keys};
    const std::vector<Index> by_head{s.batch * s.heads, s.queries, s.keys};
    file.refuse(mask, shape_text(flat) + " or " + shape_text(by_head),
                printable(shape_text(mask.shape)));
  }
  return Values(std::move(shape), addends(file, mask, true));
}

// a + b of two masks of which each may be broadcast over B, H or T.
Values broadcast_sum(const Values& a, const Values& b) {
  std::vector<Index> shape;
  for (Index axis = 0; axis < 4; ++axis) shape.push_back(std::max(a.dim(axis), b.dim(axis)));
  if (std::ranges::find(a.shape(), 0) != a.shape().end()) return a;
  Values out(shape);
  const auto row_of = [](const Values& m, Index i, Index j, Index t) {
    return m.row((std::min(i, m.dim(0) - 1) * m.dim(1) + std::min(j, m.dim(1) - 1)) * m.dim(2) +
                 std::min(t, m.dim(2) - 1));
  };
  for (Index row = 0; row < out.rows(); ++row) {
    const Index t = row % shape[2], j = row / shape[2] % shape[1], i = row / shape[2] / shape[1];
    const double *x = row_of(a, i, j, t), *y = row_of(b, i, j, t);
    for (Index s = 0; s < shape[3]; ++s) out(row, s) = x[s] + y[s];
  }
  return out;
}

}  // namespace

reference::AttentionMask read_attention_masks(const TensorFile& file, const Tensor* attn_mask,
                                              const Tensor* key_padding_mask,
                                              const ScoreShape& shape) {
  reference::AttentionMask mask;
  if (attn_mask != nullptr) mask.added = read_attn_mask(file, *attn_mask, shape);
  if (key_padding_mask == nullptr) return mask;
  const Tensor& padding = *key_padding_mask;
  const std::vector<Index> expected{shape.batch, shape.keys};
  const bool one = shape.batch == 1 && padding.shape == std::vector<Index>{shape.keys};
  if (!one && padding.shape != expected) {
    file.refuse(padding, shape_text(expected), printable(shape_text(padding.shape)));
  }
  if (padding.dtype == Dtype::kBool) {
    mask.key_padding = reference::Tensor<unsigned char>(expected);
    std::ranges::transform(padding.bytes, mask.key_padding.begin(),
                           [](std::byte b) { return b == std::byte{0} ? 0 : 1; });
    return mask;
  }
  const Values added({shape.batch, 1, 1, shape.keys}, addends(file, padding, true));
  const Values whole = mask.added.absent() ? Values({1, 1, shape.queries, shape.keys}) : mask.added;
  mask.added = broadcast_sum(whole, added);
  return mask;
}

reference::AttentionMask read_score_mask(const TensorFile& file, const Tensor& attn_mask,
                                         std::span<const Index> leading, Index queries,
                                         Index keys) {
  std::vector<Index> scores(leading.begin(), leading.end());
  scores.insert(scores.end(), {queries, keys});
  std::vector<Index> shape = attn_mask.shape;
  const auto refuse = [&] {
    file.refuse(attn_mask, "a shape that broadcasts to " + shape_text(scores),
                printable(shape_text(attn_mask.shape)));
  };
  if (shape.size() > scores.size()) refuse();
  shape.insert(shape.begin(), scores.size() - shape.size(), 1);
  for (std::size_t a = 0; a < shape.size(); ++a) {
    if (shape[a] != 1 && shape[a] != scores[a]) refuse();
  }
  const std::vector<double> values = addends(file, attn_mask, false);
  // Where the mask is the same for all that leads, one matrix is enough.
  const auto matrix = static_cast<std::ptrdiff_t>(leading.size());
  if (std::all_of(shape.begin(), shape.begin() + matrix, [](Index d) { return d == 1; })) {
    std::fill_n(scores.begin(), leading.size(), 1);
  }
  Index count = 1;
  for (std::size_t a = 0; a < leading.size(); ++a) count *= scores[a];
  reference::AttentionMask mask;
  mask.added = Values({count, 1, queries, keys});
  std::vector<Index> at(scores.size(), 0);
  for (double& out : mask.added) {
    Index from = 0;
    for (std::size_t a = 0; a < at.size(); ++a)
      from = from * shape[a] + (shape[a] == 1 ? 0 : at[a]);
    out = values[static_cast<std::size_t>(from)];
    for (std::size_t a = at.size(); a-- > 0 && ++at[a] == scores[a];) at[a] = 0;
  }
  return mask;
}

}  // namespace prenorm
