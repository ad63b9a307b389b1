#include "prenorm/model/gpt.h"

#include <fmt/format.h>

#include <algorithm>

#include "prenorm/kernels/add.h"
#include "prenorm/kernels/dropout.h"
#include "prenorm/model/initialize_torch.h"

namespace prenorm {
namespace {

TransformerBlock::Options block_options(const GptConfig& config, Index layer) {
  TransformerBlock::Options o;
  o.width = config.n_embd;
  o.heads = config.n_head;
  o.inner = config.feed_forward_width();
  o.norm = config.norm;
  o.activation = config.activation;
  o.eps = config.layer_norm_epsilon;
  o.bias = config.bias;
  o.attn_scale = config.attention_scale(layer);
  o.attn_pdrop = config.attn_pdrop;
  o.resid_pdrop = config.resid_pdrop;
  o.layer = layer;
  return o;
}

View<const TokenId, 1> flat(TokenMatrix tokens) {
  return {tokens.data(), {tokens.dim(0) * tokens.dim(1)}};
}

void check_targets(const TokenBatch& batch) {
  if (batch.inputs.shape() == batch.targets.shape() && batch.targets.contiguous()) return;
  throw ShapeError(fmt::format("Gpt: targets: expected [{}, {}], found [{}, {}]",
                               batch.inputs.dim(0), batch.inputs.dim(1), batch.targets.dim(0),
                               batch.targets.dim(1)));
}

}  // namespace

Gpt::Gpt(GptConfig config, Mode mode) : config_(std::move(config)), mode_(mode) {
  config_.validate();
  embedding_ = std::make_unique<Embedding>(parameters_, "transformer", config_.vocab_size,
                                           config_.block_size, config_.n_embd);
  for (Index layer = 0; layer < config_.n_layer; ++layer) {
    blocks_.push_back(std::make_unique<TransformerBlock>(
        parameters_, fmt::format("transformer.h.{}", layer), block_options(config_, layer)));
  }
  final_norm_ = std::make_unique<LayerNorm>(parameters_, "transformer.ln_f", config_.n_embd,
                                            config_.layer_norm_epsilon, config_.bias);
  Parameter& head = config_.tie_word_embeddings
                        ? embedding_->token_weight()
                        : parameters_.add("lm_head.weight", {config_.vocab_size, config_.n_embd});
  head_ = std::make_unique<CrossEntropyHead>(head);
  parameters_.allocate(trains());
}

Gpt::~Gpt() = default;

void Gpt::initialize(std::uint64_t seed, Initialization stream) {
  if (stream == Initialization::kTorch) {
    initialize_torch(parameters_, config_, seed);
  } else {
    prenorm::initialize(parameters_, config_, seed);
  }
}

void Gpt::set_products(Products products) {
  products_ = products;
  for (auto& block : blocks_) block->set_products(products);
  head_->set_products(products);
}

void Gpt::plan(Workspace& work, Arena& arena, Index batch, Index time) const {
  const Index rows = batch * time, width = config_.n_embd;
  // First, so that its place does not depend on the batch: it lives through a whole step.
  if (trains() && config_.tie_word_embeddings) {
    work.token_sums_ = arena.matrix(config_.vocab_size, width);
  }
  const auto shared = blocks_.front()->plan_shared(arena, batch, time, trains());
  const auto layers = static_cast<std::size_t>(config_.n_layer);
  work.stream_.resize(layers + 1);
  work.blocks_.resize(layers);
  for (std::size_t l = 0; l < layers; ++l) {
    // Without a backward pass, two stream buffers and one block's memory serve all layers.
    work.stream_[l] = trains() || l < 2 ? arena.matrix(rows, width) : work.stream_[l - 2];
    work.blocks_[l] =
        trains() || l == 0 ? blocks_[l]->plan(arena, batch, time, shared) : work.blocks_[0];
  }
  work.stream_[layers] =
      trains() || layers < 2 ? arena.matrix(rows, width) : work.stream_[layers - 2];
  if (trains()) work.final_norm_ = final_norm_->plan(arena, rows);
  work.normed_ = arena.matrix(rows, width);
  if (trains()) work.grad_ = arena.matrix(rows, width);
  work.head_ = head_->plan(arena, rows);
}

std::size_t Gpt::workspace_bytes(Index batch, Index time) const {
  Workspace work;
  Arena measure;
  plan(work, measure, batch, time);
  return measure.used();
}

Gpt::Workspace Gpt::make_workspace(Index batch, Index time) const {
  if (batch < 1 || time < 1 || time > config_.block_size) {
    throw ShapeError(fmt::format(
        "Gpt: workspace: expected at least one sequence of 1 to {} tokens, found [{}, {}]",
        config_.block_size, batch, time));
  }
  Workspace work;
  work.products_ = products_;
  work.batch_ = batch;
  work.time_ = time;
  work.memory_ = Buffer(workspace_bytes(batch, time));
  place(work, batch, time);
  return work;
}

void Gpt::place(Workspace& work, Index batch, Index time) const {
  if (batch < 1 || time < 1 || batch > work.batch_ || time > work.time_) {
    throw ShapeError(fmt::format("Gpt: tokens: expected at most [{}, {}], found [{}, {}]",
                                 work.batch_, work.time_, batch, time));
  }
  if (work.products_ != products_) {
    throw Error(fmt::format("Gpt: workspace: expected one made for products in {}, found {}",
                            to_string(products_), to_string(work.products_)));
  }
  if (batch == work.placed_batch_ && time == work.placed_time_) return;
  Arena arena(work.memory_.bytes());
  plan(work, arena, batch, time);
  work.placed_batch_ = batch;
  work.placed_time_ = time;
}

Matrix Gpt::hidden(const Runtime& run, Workspace& work, TokenMatrix tokens,
                   const DropoutPosition* dropout, const GptObserver* observer) const {
  if (!tokens.contiguous()) throw ShapeError("Gpt: tokens: expected contiguous rows, found gaps");
  const Index batch = tokens.dim(0), time = tokens.dim(1);
  place(work, batch, time);
  const Matrix first = work.stream_[0];
  embedding_->forward(run, tokens, 0, first);
  if (dropout != nullptr && config_.embd_pdrop > 0.0) {
    kernels::dropout(run, embedding_dropout(*dropout, time), first, ConstMatrix(), first);
  }
  for (std::size_t l = 0; l < blocks_.size(); ++l) {
    blocks_[l]->forward(run, batch, time, work.stream_[l], work.stream_[l + 1], work.blocks_[l],
                        dropout);
    if (observer != nullptr && observer->on_block) {
      observer->on_block(static_cast<Index>(l), work.stream_[l], work.blocks_[l],
                         work.stream_[l + 1]);
    }
  }
  final_norm_->forward(run, work.stream_.back(), work.normed_, work.final_norm_);
  if (observer != nullptr && observer->on_final_norm) {
    observer->on_final_norm(work.stream_.back(), work.normed_);
  }
  return work.normed_;
}

kernels::Dropout Gpt::embedding_dropout(const DropoutPosition& at, Index time) const {
  kernels::Dropout drop;
  drop.stream = {at.seed, Purpose::kEmbeddingDropout, at.step, 0};
  drop.p = config_.embd_pdrop;
  drop.first_element = at.first_sequence * time * config_.n_embd;
  return drop;
}

LossSum Gpt::forward_backward(const Runtime& run, Workspace& work, const TokenBatch& batch,
                              double scale, const DropoutPosition& dropout,
                              const GptObserver* observer, GptStages* stages) {
  if (!trains()) throw Error("Gpt: expected a model made for training, found one for inference");
  check_targets(batch);
  const Matrix x = hidden(run, work, batch.inputs, &dropout, observer);
  if (stages != nullptr) stages->before(0);
  const LossSum loss =
      head_->forward_backward(run, x, flat(batch.targets), scale, work.grad_, work.head_,
                              stages == nullptr ? LossSum() : stages->loss_before);
  if (stages != nullptr) stages->loss = loss;
  backward(run, work, batch.inputs, dropout, observer, stages);
  return loss;
}

// The order of hidden(), reversed; the stream's gradient is carried in one buffer.
void Gpt::backward(const Runtime& run, Workspace& work, TokenMatrix tokens,
                   const DropoutPosition& dropout, const GptObserver* observer, GptStages* stages) {
  const Index batch = tokens.dim(0), time = tokens.dim(1);
  const Matrix grad = work.grad_;
  Index stage = 0;
  const auto next_stage = [&] {
    if (stages == nullptr) return;
    stages->after(stage);
    stages->before(++stage);
  };
  const auto show = [&](std::size_t layer) {
    if (observer == nullptr || !observer->on_gradient) return;
    observer->on_gradient(static_cast<Index>(layer), grad);
  };
  final_norm_->backward(run, grad, work.stream_.back(), work.final_norm_, grad);
  show(blocks_.size());
  for (std::size_t l = blocks_.size(); l-- > 0;) {
    next_stage();
    blocks_[l]->backward(run, batch, time, work.stream_[l], work.blocks_[l], grad, &dropout, {},
                         next_stage);
    show(l);
  }
  next_stage();
  if (config_.embd_pdrop > 0.0) {
    kernels::dropout(run, embedding_dropout(dropout, time), grad, ConstMatrix(), grad);
  }
  embedding_->backward(run, tokens, grad, work.token_sums_);
  if (stages != nullptr) stages->after(stage);
}

void Gpt::finish_gradients(const Runtime& run, Workspace& work) {
  if (!work.token_sums_) return;
  const Matrix total = embedding_->token_weight().grad_matrix();
  kernels::add(run, total, work.token_sums_, total);
  kernels::fill_zero(run, work.token_sums_);
}

double Gpt::squared_gradient(Index layer) const {
  const std::string prefix = fmt::format("transformer.h.{}.", layer);
  double sum = 0.0;
  for (const Parameter& p : parameters_) {
    if (!p.name.starts_with(prefix)) continue;
    for (const float g : p.grad) sum += static_cast<double>(g) * static_cast<double>(g);
  }
  return sum;
}

LossSum Gpt::evaluate(const Runtime& run, Workspace& work, const TokenBatch& batch) const {
  check_targets(batch);
  const Matrix x = hidden(run, work, batch.inputs, nullptr);
  return head_->forward(run, x, flat(batch.targets), work.head_);
}

void Gpt::logits(const Runtime& run, Workspace& work, TokenMatrix tokens, Matrix logits) const {
  head_->logits(run, hidden(run, work, tokens, nullptr), logits);
}

void Gpt::pack(const Runtime& run, kernels::WeightFormat format) {
  if (format == kernels::WeightFormat::kBfloat16) {
    for (const Parameter& p : parameters_) kernels::round_to_bfloat16(run, p.value);
  }
  for (auto& block : blocks_) block->pack(run, format);
  head_->pack(run, format);
  packed_ = blocks_.size() + 1;
}

bool Gpt::pack_next(const Runtime& run) {
  if (packed_ < blocks_.size()) {
    blocks_[packed_]->pack(run);
  } else if (packed_ == blocks_.size()) {
    head_->pack(run);
  }
  if (packed_ <= blocks_.size()) ++packed_;
  return packed_ <= blocks_.size();
}

kernels::WeightFormat Gpt::smallest_format() const {
  const bool narrow = std::ranges::all_of(
      parameters_, [](const Parameter& p) { return kernels::are_bfloat16(p.value); });
  return narrow ? kernels::WeightFormat::kBfloat16 : kernels::WeightFormat::kFloat32;
}

Gpt::Cache Gpt::make_cache(Index batch, std::optional<Index> tokens) const {
  Cache cache;
  cache.batch_ = batch;
  cache.most_ = std::clamp<Index>(tokens.value_or(config_.block_size), 1, config_.block_size);
  for (std::size_t l = 0; l < blocks_.size(); ++l) {
    cache.layers_.emplace_back(batch, config_.n_head, config_.n_embd / config_.n_head, cache.most_);
  }
  return cache;
}

void Gpt::plan(Cache& cache, Arena& arena, Index time) const {
  const auto shared = blocks_.front()->plan_shared(arena, cache.batch_, time, false);
  cache.saved_ = blocks_.front()->plan(arena, cache.batch_, time, shared);
  cache.x_ = arena.matrix(cache.batch_ * time, config_.n_embd);
}

void Gpt::decode(const Runtime& run, Cache& cache, TokenMatrix tokens, Matrix last_logits) const {
  const Index batch = tokens.dim(0), time = tokens.dim(1);
  if (batch != cache.batch_ || time < 1 || cache.length_ + time > cache.most_) {
    throw ShapeError(
        fmt::format("Gpt: tokens after {} cached: expected [{}, 1 to {}], found [{}, {}]",
                    cache.length_, cache.batch_, cache.most_ - cache.length_, batch, time));
  }
  Arena measure;
  plan(cache, measure, time);
  if (cache.memory_.size() < measure.used()) cache.memory_ = Buffer(measure.used());
  Arena arena(cache.memory_.bytes());
  plan(cache, arena, time);

  embedding_->forward(run, tokens, cache.length_, cache.x_);
  for (std::size_t l = 0; l < blocks_.size(); ++l) {
    blocks_[l]->forward_cached(run, batch, time, cache.length_, cache.x_, cache.layers_[l],
                               cache.saved_);
  }
  cache.length_ += time;
  // Only the last token of each sequence goes through the vocabulary projection.
  const ConstMatrix last(cache.x_[time - 1].data(), {batch, config_.n_embd},
                         {time * config_.n_embd, 1});
  const Matrix normed = cache.saved_.shared.norm.rows(0, batch);
  final_norm_->forward(run, last, normed);
  head_->logits(run, normed, last_logits);
}

}  // namespace prenorm
