// One pass of a replay (diagnose_replay.h): the stages of the model one after another, each
// computed, or taken from the trace that the pass is compared with.
#pragma once
#include <functional>

#include "prenorm/study/diagnose_replay.h"

namespace prenorm {

class DiagnosePass {
 public:
  using Shared = std::shared_ptr<const Values>;

  DiagnosePass(const Runtime& run, const DiagnoseModel& model, const DiagnoseProblem& problem,
               const StageList& stages, const reference::GptOptions& options, const Trace* base,
               bool spread, Arithmetic arithmetic, Keep keep = Keep::kAll);
  // The heads' compared columns, [C, columns].
  void set_heads(const Floats& tied, const Floats& untied);
  // A trace like the one compared with, but of more tokens: attention that sees those reads them
  // there, if its inputs are those of that trace.
  void set_whole(const Trace* whole) { whole_ = whole; }
  Trace run();
  // Parts of it: what goes into the first block, a block on [B·T, C], what comes after the last,
  // and what they left.
  Shared embed();
  Shared block(Index layer, const Shared& x);
  void end(Shared x);
  const Trace& trace() const { return trace_; }

 private:
  using Compute = std::function<Values()>;

  Shared stage(Index slot, std::vector<Shared> inputs, StageKey key, const Compute& compute);
  Shared pre_norm_block(Index layer, const Shared& x);
  Shared post_norm_block(Index layer, const Shared& x);
  Shared norm(Index slot, std::vector<Shared> inputs, bool second,
              const reference::LayerNormOptions& options, const StageKey& sum_key);
  Shared linear(Index slot, const Shared& x, const reference::LinearParameters<float>& p,
                const reference::LinearOptions& options);
  Shared attend(Index layer, const Shared& qkv);
  Shared activate(Index layer, const Shared& x);
  Shared sum(Index slot, const Shared& x, const Shared& y, bool missing,
             reference::Numbers numbers);
  Shared attention_branch(Index layer, const Shared& x);
  Shared feed_forward_branch(Index layer, const Shared& x);
  void logits(const Shared& x);

  Values times(const Values& x, const Floats& w) const;
  // `calls` times in a row.
  Values normalised(const Values& x, const reference::LayerNormParameters<float>& parameters,
                    const reference::LayerNormOptions& options, Index calls) const;

  const Runtime& run_;
  const DiagnoseModel& model_;
  const DiagnoseProblem& problem_;
  const StageList& stages_;
  const reference::GptOptions& options_;
  const Trace *base_, *whole_ = nullptr;
  bool spread_;
  Arithmetic arithmetic_;
  Keep keep_;
  const Floats *tied_head_ = nullptr, *untied_head_ = nullptr;
  Trace trace_;
};

}  // namespace prenorm
