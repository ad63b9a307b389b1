// BERT (Devlin et al. 2019), for inference: token, position and segment embeddings, a layer norm, a
// stack of post-norm Transformer blocks that see the whole sequence, and the pooler.
//
//   const std::unique_ptr<Bert> model = load_bert("FOLDER");  // bert_checkpoint.h
//   Bert::Workspace work = model->make_workspace(batch, time);
//   Matrix hidden = model->forward(run, work, {tokens, {}, padding});
//
// The blocks are GPT's, with the norms behind the residual additions and without the causal rule.
#pragma once
#include <array>
#include <memory>
#include <vector>

#include "prenorm/layers/embedding.h"
#include "prenorm/layers/layer_norm.h"
#include "prenorm/layers/linear.h"
#include "prenorm/layers/transformer_block.h"
#include "prenorm/model/bert_config.h"
#include "prenorm/tensor/arena.h"
#include "prenorm/tensor/parameter.h"

namespace prenorm {

struct BertBatch {
  TokenMatrix tokens;                         // [B, T]
  TokenMatrix token_types = {};               // [B, T]: segments; empty: all 0
  View<const unsigned char, 2> padding = {};  // [B, T]: not 0 marks padding; empty: none
};

class Bert {
 public:
  // Throws ConfigError. Parameters are zero until a checkpoint fills them.
  explicit Bert(BertConfig config);

  const BertConfig& config() const { return config_; }
  // embeddings.wte.weight [V, C], .wpe.weight [P, C], .wtte.weight [S, C], .LayerNorm.*; each
  // block's names under encoder.layer.N; pooler.dense.*. Matrices of linear layers are [in, out].
  ParameterRegistry& parameters() { return parameters_; }
  const ParameterRegistry& parameters() const { return parameters_; }

  // Memory of a pass over up to [batch, time] tokens. Throws ShapeError.
  class Workspace;
  Workspace make_workspace(Index batch, Index time) const;

  // last_hidden_state [B·T, C], in the workspace until the next pass. Rows of tokens that are no
  // padding have the bits that the sequence alone, without its padding, would give. Throws
  // ShapeError for ids, segments or sizes that the model has not.
  Matrix forward(const Runtime& run, Workspace& work, const BertBatch& batch) const;

  // pooler_output: tanh(h_0 W + b) of each sequence's first token. hidden: [B·T, C]; pooled: [B,
  // C]. Overwrites pooled. Throws ConfigError for a model without a pooler.
  void pool(const Runtime& run, ConstMatrix hidden, Index batch, Matrix pooled) const;

  // Copies the weights into the kernels' order, for many passes over few tokens.
  void pack(const Runtime& run);

 private:
  void plan(Workspace& work, Arena& arena, Index batch, Index time) const;
  void check(const Workspace& work, const BertBatch& batch) const;
  void embed(const Runtime& run, Workspace& work, const BertBatch& batch) const;

  BertConfig config_;
  ParameterRegistry parameters_;
  std::unique_ptr<Embedding> embedding_;
  Parameter* token_type_weight_ = nullptr;  // [S, C]
  std::unique_ptr<LayerNorm> embedding_norm_;
  std::vector<std::unique_ptr<TransformerBlock>> blocks_;
  std::unique_ptr<Linear> pooler_;
};

class Bert::Workspace {
 private:
  friend class Bert;
  Index batch_ = 0, time_ = 0;  // the most that fits
  Buffer memory_;
  View<TokenId, 2> types_;         // [1, N]
  std::array<Matrix, 2> stream_;   // [N, C]: what goes into a block, and what comes out
  TransformerBlock::Saved block_;  // of all blocks in turn
};

}  // namespace prenorm
