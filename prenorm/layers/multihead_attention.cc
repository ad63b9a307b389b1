#include "prenorm/layers/multihead_attention.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

namespace prenorm {
namespace {

Index checked_width(Index width, Index heads) {
  if (width < 1 || heads < 1 || width % heads != 0) {
    throw ConfigError(fmt::format(
        "n_head: expected a number of heads that divides n_embd = {}, found {}", width, heads));
  }
  return width;
}

}  // namespace

MultiheadAttention::MultiheadAttention(ParameterRegistry& parameters, const std::string& name,
                                       Index width, Index heads, bool bias, bool causal,
                                       std::optional<double> scale)
    : name_(name),
      width_(checked_width(width, heads)),
      heads_(heads),
      causal_(causal),
      scale_(scale.value_or(1.0 / std::sqrt(static_cast<double>(width / heads)))),
      in_(parameters, name + ".c_attn", width, 3 * width, bias),
      out_(parameters, name + ".c_proj", width, width, bias) {}

kernels::AttentionShape MultiheadAttention::shape(Index batch, Index time) const {
  kernels::AttentionShape s;
  s.batch = batch;
  s.time = time;
  s.heads = heads_;
  s.head_width = head_width();
  s.causal = causal_;
  s.scale = scale_;
  return s;
}

void MultiheadAttention::check_mask(Index batch, Index time,
                                    const kernels::AttentionMask& mask) const {
  const View<const float, 4>::Shape scores{batch, heads_, time, time};
  if (mask.added && mask.added.shape() != scores) {
    throw ShapeError(fmt::format("MultiheadAttention '{}': attn_mask: expected [{}], found [{}]",
                                 name_, fmt::join(scores, ", "),
                                 fmt::join(mask.added.shape(), ", ")));
  }
  const View<const unsigned char, 2>::Shape keys{batch, time};
  if (mask.key_blocked && mask.key_blocked.shape() != keys) {
    throw ShapeError(
        fmt::format("MultiheadAttention '{}': key_padding_mask: expected [{}], found [{}]", name_,
                    fmt::join(keys, ", "), fmt::join(mask.key_blocked.shape(), ", ")));
  }
}

MultiheadAttention::Saved MultiheadAttention::plan(Arena& arena, Index batch, Index time) const {
  const Index rows = batch * time;
  return {arena.matrix(rows, 3 * width_), arena.matrix(rows, width_),
          arena.vector(rows * heads_),    arena.take<double, 1>({rows * heads_}),
          arena.matrix(rows, 3 * width_), arena.matrix(rows, width_)};
}

void MultiheadAttention::forward(const Runtime& run, Index batch, Index time, ConstMatrix x,
                                 Matrix y, Saved& saved, ConstMatrix residual,
                                 const kernels::AttentionDropout& dropout,
                                 const kernels::AttentionMask& mask) const {
  check_mask(batch, time, mask);
  in_.forward(run, x, saved.qkv);
  kernels::attention_forward(run, shape(batch, time), kernels::split_qkv(ConstMatrix(saved.qkv)),
                             mask, saved.attended, saved.row_max, saved.row_sum, dropout);
  kernels::Epilogue add;
  add.residual = residual;
  out_.forward(run, saved.attended, y, add);
}

void MultiheadAttention::backward(const Runtime& run, Index batch, Index time, ConstMatrix dy,
                                  ConstMatrix x, const Saved& saved, Matrix dx,
                                  const kernels::AttentionDropout& dropout,
                                  const kernels::AttentionMask& mask) {
  check_mask(batch, time, mask);
  out_.backward(run, dy, saved.attended, saved.dattended);
  kernels::attention_backward(
      run, shape(batch, time), saved.dattended, kernels::split_qkv(ConstMatrix(saved.qkv)), mask,
      saved.attended, saved.row_max, saved.row_sum, kernels::split_qkv(saved.gradient), dropout);
  in_.backward(run, saved.gradient, x, dx);
}

void MultiheadAttention::forward_cached(const Runtime& run, Index batch, Index time, Index past,
                                        ConstMatrix x, Matrix y, ConstMatrix residual,
                                        kernels::KvCache& cache, Matrix qkv,
                                        Matrix attended) const {
  in_.forward(run, x, qkv);
  kernels::AttentionShape new_tokens = shape(batch, time);
  new_tokens.past = past;
  kernels::attention_cached(run, new_tokens, qkv, cache, attended);
  kernels::Epilogue add;
  add.residual = residual;
  out_.forward(run, attended, y, add);
}

void MultiheadAttention::pack(const Runtime& run, kernels::WeightFormat format) {
  in_.pack(run, format);
  out_.pack(run, format);
}

void MultiheadAttention::set_products(Products products) {
  in_.set_products(products);
  out_.set_products(products);
}

}  // namespace prenorm
