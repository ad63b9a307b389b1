// A GPT-style language model: token and position embeddings, a stack of Transformer blocks, a final
// layer norm and a projection to the vocabulary.
//
//   Gpt model(config, Gpt::Mode::kTraining);
//   model.initialize(seed);
//   Gpt::Workspace work = model.make_workspace(run, 12, 64);
//   LossSum loss = model.forward_backward(run, work, {inputs, targets}, 1.0 / tokens);
//
// Parameter names and layouts are Hugging Face's GPT-2: transformer.wte.weight [V, C],
// transformer.h.N.attn.c_attn.weight [C, 3C] and so on; matrices of linear layers are [in, out].
#pragma once
#include <memory>
#include <vector>

#include "prenorm/kernels/attention.h"
#include "prenorm/layers/cross_entropy_head.h"
#include "prenorm/layers/embedding.h"
#include "prenorm/layers/layer_norm.h"
#include "prenorm/layers/transformer_block.h"
#include "prenorm/model/gpt_config.h"
#include "prenorm/model/gpt_observer.h"
#include "prenorm/model/gpt_stages.h"
#include "prenorm/model/initialize.h"
#include "prenorm/tensor/arena.h"
#include "prenorm/tensor/parameter.h"

namespace prenorm {

// A batch of token windows: both [B, T]; targets may hold −1 (ignored).
struct TokenBatch {
  TokenMatrix inputs, targets;
};

class Gpt {
 public:
  enum class Mode { kTraining, kInference };  // with or without gradient memory

  // Throws ConfigError. Parameters are zero until initialize() or a checkpoint fills them.
  explicit Gpt(GptConfig config, Mode mode = Mode::kTraining);
  ~Gpt();

  const GptConfig& config() const { return config_; }
  ParameterRegistry& parameters() { return parameters_; }
  const ParameterRegistry& parameters() const { return parameters_; }

  // GPT-2's: normal(0, initializer_range), residual projections scaled by 1 / sqrt(2 · layers),
  // biases 0, layer norms 1 and 0. A function of the seed and of whose stream it is alone.
  void initialize(std::uint64_t seed, Initialization stream = Initialization::kPrenorm);

  // Memory of a pass over up to [batch, time] tokens; described by one plan for all its layers.
  class Workspace;
  Workspace make_workspace(Index batch, Index time) const;
  std::size_t workspace_bytes(Index batch, Index time) const;

  // What the products of the linear layers and of the head are computed in from now on; all else
  // stays in float32 (matmul_bf16.h). A workspace serves the products that it was made for.
  void set_products(Products products);
  Products products() const { return products_; }

  // Where a pass stands in training, for dropout: sequences before this batch in the step.
  using DropoutPosition = TransformerBlock::DropoutPosition;

  // Adds to every gradient the gradient of scale · Σ loss; dropout is on if the config has any.
  // Returns Σ loss and the number of targets. Throws ShapeError. An observer sees the pass from
  // inside and changes none of its bits; stages (gpt_stages.h) stop it before and after each part
  // of the backward pass.
  LossSum forward_backward(const Runtime& run, Workspace& work, const TokenBatch& batch,
                           double scale, const DropoutPosition& dropout,
                           const GptObserver* observer = nullptr, GptStages* stages = nullptr);

  // Stages of the backward pass in its order: the head with the final norm, two for each block from
  // the last to the first (mlp with ln_2, attn with ln_1), the embeddings.
  Index stages() const { return 2 * config_.n_layer + 2; }
  // All that a stage adds to: parts of the registry's gradients and, last, what the workspace holds
  // for finish_gradients().
  std::vector<std::span<float>> stage_gradients(const Workspace& work, Index stage) const;
  // The stage after which a parameter's gradient is complete, where it is not finish_gradients().
  Index stage_of(const Parameter& parameter) const;

  // Call once after the last forward_backward() of a step, before the optimizer: where the head is
  // tied, the embedding's share of wte's gradient is summed apart from the head's, so that a step's
  // bits do not depend on how its tokens were split into micro-batches; this adds the two.
  void finish_gradients(const Runtime& run, Workspace& work);
  // Clears the gradients and what the workspace holds of them: of a step that is not finished.
  void clear_gradients(const Runtime& run, Workspace& work);
  // The sum of squares of the gradients of block `layer`, in double.
  double squared_gradient(Index layer) const;

  // Σ loss without gradients or dropout.
  LossSum evaluate(const Runtime& run, Workspace& work, const TokenBatch& batch) const;

  // logits: [B·T, V] of tokens [B, T]. Overwrites logits.
  void logits(const Runtime& run, Workspace& work, TokenMatrix tokens, Matrix logits) const;

  // Copies the weights into the kernels' order: decoding is up to a third faster, for as much
  // memory again (half as much in bfloat16). For weights that no longer change; call again after
  // changing them. In bfloat16 every parameter is rounded first, as by converting the model's
  // folder; values that are as bfloat16 has them are not written to.
  void pack(const Runtime& run, kernels::WeightFormat format = kernels::WeightFormat::kFloat32);
  // The same in float32, a part (a block, then the head) a call, for between two tokens. False once
  // there is nothing left to pack.
  bool pack_next(const Runtime& run);
  // The format that keeps every weight as it is with the least memory.
  kernels::WeightFormat smallest_format() const;

  // Incremental decoding: keys and values of `batch` sequences of up to `tokens` tokens, at most
  // and, where nothing is said, the context's length.
  class Cache;
  Cache make_cache(Index batch, std::optional<Index> tokens = {}) const;
  // Appends tokens [B, T] to the cache and writes the logits of the last of them, [B, V]. The bits
  // are those of logits() on the whole sequence. Throws ShapeError past what the cache has room
  // for.
  void decode(const Runtime& run, Cache& cache, TokenMatrix tokens, Matrix last_logits) const;

 private:
  bool trains() const { return mode_ == Mode::kTraining; }
  void plan(Workspace& work, Arena& arena, Index batch, Index time) const;
  void place(Workspace& work, Index batch, Index time) const;
  // The final norm's output [B·T, C], in the workspace.
  Matrix hidden(const Runtime& run, Workspace& work, TokenMatrix tokens,
                const DropoutPosition* dropout, const GptObserver* observer = nullptr) const;
  void backward(const Runtime& run, Workspace& work, TokenMatrix tokens,
                const DropoutPosition& dropout, const GptObserver* observer, GptStages* stages);
  kernels::Dropout embedding_dropout(const DropoutPosition& at, Index time) const;
  void plan(Cache& cache, Arena& arena, Index time) const;

  GptConfig config_;
  Mode mode_;
  Products products_ = Products::kFloat32;
  std::size_t packed_ = 0;  // parts that are
  ParameterRegistry parameters_;
  std::unique_ptr<Embedding> embedding_;
  std::vector<std::unique_ptr<TransformerBlock>> blocks_;
  std::unique_ptr<LayerNorm> final_norm_;
  std::unique_ptr<CrossEntropyHead> head_;
};

class Gpt::Workspace {
 public:
  Index batch() const { return batch_; }
  Index time() const { return time_; }

 private:
  friend class Gpt;
  Products products_ = Products::kFloat32;
  Index batch_ = 0, time_ = 0;                // the most that fits
  Index placed_batch_ = 0, placed_time_ = 0;  // what the views below are for
  Buffer memory_;
  Matrix token_sums_;           // [V, C]: the embedding's share of a tied weight's gradient
  std::vector<Matrix> stream_;  // n_layer + 1 of [N, C]: the residual stream
  std::vector<TransformerBlock::Saved> blocks_;
  LayerNorm::Saved final_norm_;
  Matrix normed_;  // [N, C]
  Matrix grad_;    // [N, C]: the stream's gradient
  CrossEntropyHead::Scratch head_;
};

class Gpt::Cache {
 public:
  Index batch() const { return batch_; }
  Index length() const { return length_; }  // tokens seen so far
  void clear() { length_ = 0; }

 private:
  friend class Gpt;
  Index batch_ = 0, length_ = 0, most_ = 0;
  std::vector<kernels::KvCache> layers_;
  Buffer memory_;  // of the passes' activations
  TransformerBlock::Saved saved_;
  Matrix x_;
};

}  // namespace prenorm
