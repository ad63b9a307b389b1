#include "prenorm/layers/transformer_block.h"

#include <utility>

#include "prenorm/kernels/add.h"
#include "prenorm/kernels/dropout.h"

namespace prenorm {

using kernels::AttentionDropout;
using kernels::Dropout;

std::string_view norm_placement_name(NormPlacement placement) {
  return placement == NormPlacement::kPre ? "pre" : "post";
}
std::optional<NormPlacement> norm_placement_from_name(std::string_view name) {
  if (name == "pre") return NormPlacement::kPre;
  if (name == "post") return NormPlacement::kPost;
  return std::nullopt;
}

// What a forward pass and its backward pass have in common.
struct TransformerBlock::Pass {
  Index batch, time;
  const kernels::AttentionMask& mask;
  AttentionDropout attention_dropout = {};
  Dropout attention_residual_dropout = {}, feed_forward_residual_dropout = {};
};

TransformerBlock::TransformerBlock(ParameterRegistry& parameters, std::string name,
                                   const Options& options)
    : name_(std::move(name)),
      options_(options),
      ln_1_(parameters, name_ + ".ln_1", options.width, options.eps, options.bias),
      attention_(parameters, name_ + ".attn", options.width, options.heads, options.bias,
                 options.causal, options.attn_scale),
      ln_2_(parameters, name_ + ".ln_2", options.width, options.eps, options.bias),
      feed_forward_(parameters, name_ + ".mlp", options.width, options.inner, options.activation,
                    options.bias) {}

TransformerBlock::Shared TransformerBlock::plan_shared(Arena& arena, Index batch, Index time,
                                                       bool backward) const {
  const Index rows = batch * time, width = options_.width;
  Shared s;
  s.norm = arena.matrix(rows, width);
  s.branch = arena.matrix(rows, width);
  s.activated = feed_forward_.plan_activated(arena, rows);
  if (backward) {
    // The feed-forward network is done with its gradient before attention begins with its own.
    arena.overlap([&] { s.inner = arena.matrix(rows, options_.inner); },
                  [&] {
                    s.dqkv = arena.matrix(rows, 3 * width);
                    s.dattended = arena.matrix(rows, width);
                  });
  }
  return s;
}

TransformerBlock::Saved TransformerBlock::plan(Arena& arena, Index batch, Index time,
                                               const Shared& shared) const {
  const Index rows = batch * time, width = options_.width;
  Saved s;
  s.attention.qkv = arena.matrix(rows, 3 * width);
  s.attention.attended = arena.matrix(rows, width);
  s.attention.row_max = arena.vector(rows * options_.heads);
  s.attention.row_sum = arena.take<double, 1>({rows * options_.heads});
  s.attention.gradient = shared.dqkv;
  s.attention.dattended = shared.dattended;
  s.feed_forward.hidden = arena.matrix(rows, options_.inner);
  s.feed_forward.activated = shared.activated;
  s.feed_forward.rounded = feed_forward_.plan_rounded(arena, rows);
  s.feed_forward.gradient = shared.inner;
  s.ln_1 = ln_1_.plan(arena, rows);
  s.ln_2 = ln_2_.plan(arena, rows);
  s.h = arena.matrix(rows, width);
  if (options_.norm == NormPlacement::kPost) {
    s.sum1 = arena.matrix(rows, width);
    s.sum2 = arena.matrix(rows, width);
  }
  s.shared = shared;
  return s;
}

TransformerBlock::Pass TransformerBlock::pass(Index batch, Index time,
                                              const DropoutPosition* position,
                                              const kernels::AttentionMask& mask) const {
  Pass p{batch, time, mask};
  if (position == nullptr) return p;
  const auto layer = static_cast<std::uint32_t>(options_.layer);
  const auto stream = [&](Purpose purpose) {
    return RandomStream{position->seed, purpose, position->step, layer};
  };
  p.attention_dropout = {{stream(Purpose::kAttentionDropout), options_.attn_pdrop, 0},
                         position->first_sequence};
  const Index first = position->first_sequence * time * options_.width;
  p.attention_residual_dropout = {stream(Purpose::kAttentionResidualDropout), options_.resid_pdrop,
                                  first};
  p.feed_forward_residual_dropout = {stream(Purpose::kFeedForwardResidualDropout),
                                     options_.resid_pdrop, first};
  return p;
}

namespace {

// Calls branch(y, residual) so that y = x + dropout(branch): in one pass without dropout.
template <typename Branch>
void add_branch(const Runtime& run, const Dropout& drop, ConstMatrix x, Matrix y,
                const Branch& branch) {
  branch(y, drop ? ConstMatrix() : x);
  if (drop) kernels::dropout(run, drop, y, x, y);
}

// The gradient that reaches a branch: dy itself, or its kept elements in `scratch`.
ConstMatrix branch_gradient(const Runtime& run, const Dropout& drop, ConstMatrix dy,
                            Matrix scratch) {
  if (!drop) return dy;
  kernels::dropout(run, drop, dy, ConstMatrix(), scratch);
  return scratch;
}

}  // namespace

void TransformerBlock::forward(const Runtime& run, Index batch, Index time, ConstMatrix x, Matrix y,
                               Saved& saved, const DropoutPosition* dropout,
                               const kernels::AttentionMask& mask) const {
  check_shape("TransformerBlock", name_, "x", x, batch * time, options_.width);
  check_shape("TransformerBlock", name_, "y", y, batch * time, options_.width);
  const Pass p = pass(batch, time, dropout, mask);
  const bool pre = options_.norm == NormPlacement::kPre;
  const Matrix norm = saved.shared.norm;

  // h = x + MHA(LN1(x))  or  LN1(x + MHA(x))
  if (pre) ln_1_.forward(run, x, norm, saved.ln_1);
  const Matrix sum1 = pre ? saved.h : saved.sum1;
  add_branch(run, p.attention_residual_dropout, x, sum1, [&](Matrix out, ConstMatrix residual) {
    attention_.forward(run, batch, time, pre ? ConstMatrix(norm) : x, out, saved.attention,
                       residual, p.attention_dropout, mask);
  });
  if (!pre) ln_1_.forward(run, sum1, saved.h, saved.ln_1);

  // y = h + FFN(LN2(h))  or  LN2(h + FFN(h))
  if (pre) ln_2_.forward(run, saved.h, norm, saved.ln_2);
  const Matrix sum2 = pre ? y : saved.sum2;
  add_branch(run, p.feed_forward_residual_dropout, saved.h, sum2,
             [&](Matrix out, ConstMatrix residual) {
               feed_forward_.forward(run, pre ? norm : saved.h, out, saved.feed_forward, residual);
             });
  if (!pre) ln_2_.forward(run, sum2, y, saved.ln_2);
}

void TransformerBlock::backward(const Runtime& run, Index batch, Index time, ConstMatrix x,
                                const Saved& saved, Matrix dy, const DropoutPosition* dropout,
                                const kernels::AttentionMask& mask,
                                const std::function<void()>& halfway) {
  check_shape("TransformerBlock", name_, "x", x, batch * time, options_.width);
  check_shape("TransformerBlock", name_, "dy", dy, batch * time, options_.width);
  const Pass p = pass(batch, time, dropout, mask);
  if (options_.norm == NormPlacement::kPre) {
    pre_norm_backward(run, p, x, saved, dy, halfway);
  } else {
    post_norm_backward(run, p, x, saved, dy, halfway);
  }
}

// dh = dy + LN2'(FFN'(dy)),  dx = dh + LN1'(MHA'(dh)). The norms' outputs are computed again from
// what was kept, by the same function.
void TransformerBlock::pre_norm_backward(const Runtime& run, const Pass& p, ConstMatrix x,
                                         const Saved& saved, Matrix dy,
                                         const std::function<void()>& halfway) {
  const Matrix norm = saved.shared.norm, branch = saved.shared.branch;
  ln_2_.forward(run, saved.h, norm);
  ConstMatrix dbranch = branch_gradient(run, p.feed_forward_residual_dropout, dy, branch);
  feed_forward_.backward(run, dbranch, norm, saved.feed_forward, norm);
  ln_2_.backward(run, norm, saved.h, saved.ln_2, dy, dy);
  if (halfway) halfway();

  ln_1_.forward(run, x, norm);
  dbranch = branch_gradient(run, p.attention_residual_dropout, dy, branch);
  attention_.backward(run, p.batch, p.time, dbranch, norm, saved.attention, norm,
                      p.attention_dropout, p.mask);
  ln_1_.backward(run, norm, x, saved.ln_1, dy, dy);
}

// ds2 = LN2'(dy),  dh = ds2 + FFN'(ds2),  ds1 = LN1'(dh),  dx = ds1 + MHA'(ds1).
void TransformerBlock::post_norm_backward(const Runtime& run, const Pass& p, ConstMatrix x,
                                          const Saved& saved, Matrix dy,
                                          const std::function<void()>& halfway) {
  const Matrix norm = saved.shared.norm, branch = saved.shared.branch;
  ln_2_.backward(run, dy, saved.sum2, saved.ln_2, dy);
  ConstMatrix dbranch = branch_gradient(run, p.feed_forward_residual_dropout, dy, branch);
  feed_forward_.backward(run, dbranch, saved.h, saved.feed_forward, norm);
  kernels::add(run, dy, norm, dy);
  if (halfway) halfway();

  ln_1_.backward(run, dy, saved.sum1, saved.ln_1, dy);
  dbranch = branch_gradient(run, p.attention_residual_dropout, dy, branch);
  attention_.backward(run, p.batch, p.time, dbranch, x, saved.attention, norm, p.attention_dropout,
                      p.mask);
  kernels::add(run, dy, norm, dy);
}

void TransformerBlock::forward_cached(const Runtime& run, Index batch, Index time, Index past,
                                      Matrix x, kernels::KvCache& cache, Saved& saved) const {
  const bool pre = options_.norm == NormPlacement::kPre;
  const Matrix norm = saved.shared.norm, h = saved.h;
  if (pre) ln_1_.forward(run, x, norm);
  attention_.forward_cached(run, batch, time, past, pre ? norm : x, h, x, cache,
                            saved.attention.qkv, saved.attention.attended);
  if (!pre) ln_1_.forward(run, h, h);
  if (pre) ln_2_.forward(run, h, norm);
  feed_forward_.forward(run, pre ? norm : h, x, saved.feed_forward, h);
  if (!pre) ln_2_.forward(run, x, x);
}

void TransformerBlock::pack(const Runtime& run, kernels::WeightFormat format) {
  attention_.pack(run, format);
  feed_forward_.pack(run, format);
}

void TransformerBlock::set_products(Products products) {
  attention_.set_products(products);
  feed_forward_.set_products(products);
}

}  // namespace prenorm
