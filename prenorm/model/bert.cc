#include "prenorm/model/bert.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "prenorm/base/portable_math.h"
#include "prenorm/kernels/embedding.h"

namespace prenorm {
namespace {

TransformerBlock::Options block_options(const BertConfig& config, Index layer) {
  TransformerBlock::Options o;
  o.width = config.hidden_size;
  o.heads = config.num_attention_heads;
  o.inner = config.intermediate_size;
  o.norm = NormPlacement::kPost;
  o.activation = config.hidden_act;
  o.eps = config.layer_norm_eps;
  o.causal = false;
  o.layer = layer;
  return o;
}

// tanh(x) = sign(x) (1 − e) / (1 + e) with e = exp(−2 |x|).
double tanh_of(double x) {
  const double e = portable_exp(x < 0.0 ? 2.0 * x : -2.0 * x);
  const double t = (1.0 - e) / (1.0 + e);
  return x < 0.0 ? -t : t;
}

}  // namespace

Bert::Bert(BertConfig config) : config_(std::move(config)) {
  config_.validate();
  const Index width = config_.hidden_size;
  embedding_ = std::make_unique<Embedding>(parameters_, "embeddings", config_.vocab_size,
                                           config_.max_position_embeddings, width);
  token_type_weight_ = &parameters_.add("embeddings.wtte.weight", {config_.type_vocab_size, width});
  embedding_norm_ = std::make_unique<LayerNorm>(parameters_, "embeddings.LayerNorm", width,
                                                config_.layer_norm_eps);
  for (Index layer = 0; layer < config_.num_hidden_layers; ++layer) {
    blocks_.push_back(std::make_unique<TransformerBlock>(
        parameters_, fmt::format("encoder.layer.{}", layer), block_options(config_, layer)));
  }
  if (config_.add_pooling_layer) {
    pooler_ = std::make_unique<Linear>(parameters_, "pooler.dense", width, width);
  }
  parameters_.allocate(false);
}

void Bert::plan(Workspace& work, Arena& arena, Index batch, Index time) const {
  const Index rows = batch * time;
  work.types_ = arena.take<TokenId, 2>({1, rows});
  for (Matrix& stream : work.stream_) stream = arena.matrix(rows, config_.hidden_size);
  const auto shared = blocks_.front()->plan_shared(arena, batch, time, false);
  work.block_ = blocks_.front()->plan(arena, batch, time, shared);
}

Bert::Workspace Bert::make_workspace(Index batch, Index time) const {
  if (batch < 1 || time < 1 || time > config_.max_position_embeddings) {
    throw ShapeError(fmt::format(
        "Bert: workspace: expected at least one sequence of 1 to {} tokens, found [{}, {}]",
        config_.max_position_embeddings, batch, time));
  }
  Workspace work;
  work.batch_ = batch;
  work.time_ = time;
  Arena measure;
  plan(work, measure, batch, time);
  work.memory_ = Buffer(measure.used());
  return work;
}

void Bert::check(const Workspace& work, const BertBatch& batch) const {
  const TokenMatrix& tokens = batch.tokens;
  if (tokens.dim(0) < 1 || tokens.dim(1) < 1 || tokens.dim(0) > work.batch_ ||
      tokens.dim(1) > work.time_) {
    throw ShapeError(fmt::format("Bert: tokens: expected at most [{}, {}], found [{}, {}]",
                                 work.batch_, work.time_, tokens.dim(0), tokens.dim(1)));
  }
  const auto same_shape = [&](const char* what, bool given, const auto& other) {
    if (!given || other.shape() == tokens.shape()) return;
    throw ShapeError(fmt::format("Bert: {}: expected [{}, {}], found [{}, {}]", what, tokens.dim(0),
                                 tokens.dim(1), other.dim(0), other.dim(1)));
  };
  same_shape("token_types", static_cast<bool>(batch.token_types), batch.token_types);
  same_shape("padding", static_cast<bool>(batch.padding), batch.padding);
}

// LayerNorm(wte[token] + wpe[t] + wtte[segment]).
void Bert::embed(const Runtime& run, Workspace& work, const BertBatch& batch) const {
  const Matrix x = work.stream_[0];
  const Index time = batch.tokens.dim(1);
  embedding_->forward(run, batch.tokens, 0, x);
  for (Index n = 0; n < x.dim(0); ++n) {
    const TokenId type = batch.token_types ? batch.token_types[n / time][n % time] : 0;
    if (type < 0 || type >= config_.type_vocab_size) {
      throw ShapeError(fmt::format("Bert: token_types: expected [0, {}), found {} at [{}, {}]",
                                   config_.type_vocab_size, type, n / time, n % time));
    }
    work.types_[0][n] = type;
  }
  // One sequence of all rows whose "positions" are the rows of x itself: x += wtte[types].
  kernels::embedding_forward(run, work.types_, token_type_weight_->matrix(), x, 0, x);
  embedding_norm_->forward(run, x, x);
}

Matrix Bert::forward(const Runtime& run, Workspace& work, const BertBatch& batch) const {
  check(work, batch);
  const Index sequences = batch.tokens.dim(0), time = batch.tokens.dim(1);
  Arena arena(work.memory_.bytes());
  plan(work, arena, sequences, time);
  embed(run, work, batch);
  kernels::AttentionMask mask;
  mask.key_blocked = batch.padding;
  for (const auto& block : blocks_) {
    block->forward(run, sequences, time, work.stream_[0], work.stream_[1], work.block_, nullptr,
                   mask);
    std::swap(work.stream_[0], work.stream_[1]);
  }
  return work.stream_[0];
}

void Bert::pool(const Runtime& run, ConstMatrix hidden, Index batch, Matrix pooled) const {
  const Index width = config_.hidden_size;
  if (pooler_ == nullptr) throw ConfigError("Bert: expected a model with a pooler, found none");
  if (batch < 1 || hidden.dim(0) % batch != 0) {
    throw ShapeError(fmt::format("Bert: hidden: expected rows of {} sequences, found {} rows",
                                 batch, hidden.dim(0)));
  }
  const Index time = hidden.dim(0) / batch;
  check_shape("Bert", "pooler", "hidden", hidden, -1, width);
  check_shape("Bert", "pooler", "pooled", pooled, batch, width);
  pooler_->forward(run, ConstMatrix(hidden.data(), {batch, width}, {time * hidden.stride(0), 1}),
                   pooled);
  for (Index b = 0; b < batch; ++b) {
    for (float& x : std::span(pooled[b].data(), static_cast<std::size_t>(width))) {
      x = static_cast<float>(tanh_of(static_cast<double>(x)));
    }
  }
}

void Bert::pack(const Runtime& run) {
  for (auto& block : blocks_) block->pack(run);
}

}  // namespace prenorm
