// The Transformer block, on the residual stream x [N, C]:
//
//   pre-norm   h = x + MHA(LN1(x)),   y = h + FFN(LN2(h))      (Xiong et al. 2020; GPT-2)
//   post-norm  h = LN1(x + MHA(x)),   y = LN2(h + FFN(h))      (Vaswani et al. 2017)
//
// The residual additions of the library live in this file's source and nowhere else.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "prenorm/layers/feed_forward.h"
#include "prenorm/layers/layer_norm.h"
#include "prenorm/layers/multihead_attention.h"

namespace prenorm {

enum class NormPlacement { kPre, kPost };

// "pre", "post".
std::string_view norm_placement_name(NormPlacement placement);
std::optional<NormPlacement> norm_placement_from_name(std::string_view name);

class TransformerBlock {
 public:
  struct Options {
    Index width = 768, heads = 12, inner = 3072;
    NormPlacement norm = NormPlacement::kPre;
    Activation activation = Activation::kGeluTanh;
    double eps = 1e-5;
    bool bias = true;
    bool causal = true;
    std::optional<double> attn_scale = {};  // of the attention scores: 1 / √D unless given
    double attn_pdrop = 0.0, resid_pdrop = 0.0;
    Index layer = 0;  // its number in the stack: part of the key of its dropout masks
  };

  // Buffers that all blocks of a stack share, each used by one block at a time.
  struct Shared {
    Matrix norm, branch;      // [N, C]
    Matrix activated, inner;  // [N, F]
    Matrix dqkv, dattended;   // [N, 3C], [N, C]
  };

  struct Saved {
    MultiheadAttention::Saved attention;
    FeedForward::Saved feed_forward;
    LayerNorm::Saved ln_1, ln_2;
    Matrix h;           // [N, C]
    Matrix sum1, sum2;  // [N, C], post-norm only: what the norms were applied to
    Shared shared;
  };

  // Where a pass stands in training, for the dropout masks; none: dropout is off.
  struct DropoutPosition {
    std::uint64_t seed = 0;
    std::uint32_t step = 0;
    Index first_sequence = 0;  // of the whole step
  };

  // Registers NAME.ln_1, NAME.attn, NAME.ln_2, NAME.mlp. Throws ConfigError.
  TransformerBlock(ParameterRegistry& parameters, std::string name, const Options& options);

  // Memory of a pass over [batch, time] tokens; without `backward`, that of a forward pass alone.
  Shared plan_shared(Arena& arena, Index batch, Index time, bool backward) const;
  Saved plan(Arena& arena, Index batch, Index time, const Shared& shared) const;

  // x, y: [B·T, C]; y may not alias x. Overwrites y. Throws ShapeError.
  void forward(const Runtime& run, Index batch, Index time, ConstMatrix x, Matrix y, Saved& saved,
               const DropoutPosition* dropout = nullptr,
               const kernels::AttentionMask& mask = {}) const;

  // dy: [B·T, C] becomes dx in place. x, dropout and mask are the forward pass's. Adds to the
  // parameters' gradients: first to those of ln_2 and mlp, then, after a call of `halfway`, to
  // those of ln_1 and attn.
  void backward(const Runtime& run, Index batch, Index time, ConstMatrix x, const Saved& saved,
                Matrix dy, const DropoutPosition* dropout = nullptr,
                const kernels::AttentionMask& mask = {}, const std::function<void()>& halfway = {});

  // Incremental decoding: `time` new tokens of each sequence from position `past`. x becomes y in
  // place. Uses saved's buffers as scratch.
  void forward_cached(const Runtime& run, Index batch, Index time, Index past, Matrix x,
                      kernels::KvCache& cache, Saved& saved) const;

  void pack(const Runtime& run, kernels::WeightFormat format = kernels::WeightFormat::kFloat32);
  // Of the linear layers in both passes; attention's own products stay in float32.
  void set_products(Products products);
  const Options& options() const { return options_; }

 private:
  struct Pass;
  Pass pass(Index batch, Index time, const DropoutPosition* position,
            const kernels::AttentionMask& mask) const;
  void pre_norm_backward(const Runtime& run, const Pass& pass, ConstMatrix x, const Saved& saved,
                         Matrix dy, const std::function<void()>& halfway);
  void post_norm_backward(const Runtime& run, const Pass& pass, ConstMatrix x, const Saved& saved,
                          Matrix dy, const std::function<void()>& halfway);

  std::string name_;
  Options options_;
  LayerNorm ln_1_;
  MultiheadAttention attention_;
  LayerNorm ln_2_;
  FeedForward feed_forward_;
};

}  // namespace prenorm
